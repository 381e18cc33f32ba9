from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_rendezvous.round import lease
from elasticjob_rendezvous.round.lease import Failure, Pause, Progress, SlotLease

HELD = SlotLease(
    slot=3,
    pod="5b3c-uid",
    nonce="00c0ffee",
    arrived=4,
    store="[fd00::5]:39201",
    seen=4,
    finished=3,
    checkpointed="n1",
    progress=Progress(4, 17, 1088, 0.25),
    failure=Failure(3, -9, "Signal 9", out_of_memory=True),
    pause=Pause(3, 1_800_000_016),
)


def test_a_lease_reads_back() -> None:
    assert lease.parse(3, lease.holder(HELD), lease.annotations(HELD)) == HELD


def test_a_free_one_has_no_holder_and_no_annotations() -> None:
    free = SlotLease(2)
    assert free.free
    assert (lease.holder(free), lease.annotations(free)) == ("", {})
    assert lease.parse(2, None, None) == free


@pytest.mark.parametrize("holder", ["somebody", "/00c0ffee", "uid/", "uid/00C0FFEE", "a b/00c0ffee", "x" * 9999])
def test_a_holder_of_another_form_holds_nothing(holder: str) -> None:
    found = lease.parse(0, holder, {})
    assert found.free
    assert len(found.refused) == 1


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (lease.ARRIVED, "-1"),
        (lease.ARRIVED, "\uff14"),
        (lease.SEEN, "9" * 30),
        (lease.SEEN, str(2**31 - 1)),
        (lease.STORE, "nowhere"),
        (lease.STORE, "host:port"),
        (lease.PROGRESS, "}{"),
        (lease.PROGRESS, "[" * 1000),
        (lease.PROGRESS, '{"round": 1, "step": -1, "samples": 0, "loss": null}'),
        (lease.PROGRESS, '{"round": 1, "step": 1, "samples": 0, "loss": NaN}'),
        (lease.PROGRESS, '{"round": 1, "step": true, "samples": 0}'),
        (lease.FAILURE, '{"round": 1, "exitCode": "1", "message": ""}'),
        (lease.FAILURE, '{"round": 1, "exitCode": 2147483648, "message": ""}'),
        (lease.FAILURE, "x" * 5000),
        (lease.PAUSE, '{"round": 1}'),
        (lease.PAUSE, '{"round": 1, "until": "soon"}'),
        (lease.LEFT, "a/b"),
        (lease.LEFT, "x" * 254),
    ],
)
def test_garbage_is_absent_and_named(key: str, text: str) -> None:
    found = lease.parse(3, lease.holder(HELD), {**lease.annotations(HELD), key: text})
    assert len(found.refused) == 1
    assert found.refused[0].startswith(key)
    assert found.nonce == HELD.nonce


def test_a_freed_slot_remembers_what_was_seen_and_whom_it_has_lost() -> None:
    failure = Failure(3, 1, "no")
    held = dataclasses.replace(HELD, seen=7, failure=failure)

    freed = lease.freed(held, left="a-pod")

    assert freed == SlotLease(HELD.slot, seen=7, failure=failure, left="a-pod")
    assert lease.parse(HELD.slot, "", lease.annotations(freed)) == freed


@given(
    st.text(),
    st.dictionaries(
        st.sampled_from([lease.ARRIVED, lease.STORE, lease.PROGRESS, lease.FAILURE, lease.PAUSE]), st.text()
    ),
)
def test_nothing_in_a_lease_is_a_crash(holder: str, annotations: dict[str, str]) -> None:
    found = lease.parse(0, holder, annotations)
    assert found.slot == 0


def test_what_is_no_number_for_json_is_left_out() -> None:
    told = SlotLease(0, pod="u", nonce="00c0ffee", progress=Progress(1, 2, 3, float("nan")))
    assert lease.parse(0, "u/00c0ffee", lease.annotations(told)).progress == Progress(1, 2, 3, None)


def test_a_long_message_is_cut_so_that_it_can_be_read_again() -> None:
    told = SlotLease(0, pod="u", nonce="00c0ffee", failure=Failure(1, 1, '"\\\n' * 5000))
    annotations = lease.annotations(told)
    assert len(annotations[lease.FAILURE]) <= lease.MAX_FAILURE
    found = lease.parse(0, "u/00c0ffee", annotations).failure
    assert found is not None
    assert found.exit_code == 1


@pytest.mark.parametrize(("written", "read"), [("4.5", 4.5), ("0", 0.0), ("-1", None), ("true", None), ('"x"', None)])
def test_how_long_restoring_took_is_no_reason_to_refuse_a_report(written: str, read: float | None) -> None:
    text = f'{{"round": 1, "step": 2, "samples": 3, "restored": {written}}}'

    progress = lease.parse(0, "u/00c0ffee", {lease.PROGRESS: text}).progress

    assert progress == Progress(1, 2, 3, None)
    assert progress.restored == read
    again = lease.annotations(SlotLease(0, pod="u", nonce="00c0ffee", progress=progress))
    assert lease.parse(0, "u/00c0ffee", again).progress == progress


def test_nobody_has_left_a_slot_that_is_held() -> None:
    written = {lease.LEFT: "a-pod"}

    assert lease.parse(0, "u/00c0ffee", written).left == ""
    assert lease.parse(0, "", written).left == "a-pod"
