from __future__ import annotations

import copy
import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_rendezvous.round import changing, record, slots
from elasticjob_rendezvous.round.record import Member, NewerError, Notice, Phase, Reason, Record, RecordError, Result

if TYPE_CHECKING:
    from collections.abc import Callable

SEALED = Record(
    job="0f2e",
    number=4,
    phase=Phase.SEALED,
    reason=Reason.POD_LOST,
    plan=frozenset({0, 1, 2}),
    absent=frozenset({1}),
    sealed=4,
    members=(Member(0, "77aa01bc"), Member(2, "00c0ffee")),
    store="10.244.1.5:39201",
    failures=2,
    notice=Notice("n1", 30),
    min_nodes=2,
    sizes=frozenset({1, 2, 4}),
    writer="77aa01bc.12",
)


def changed(**fields: Any) -> str:
    return json.dumps({**json.loads(record.dump(SEALED)), **fields})


def test_text_is_one_line_that_reads_back() -> None:
    text = record.dump(SEALED)
    assert "\n" not in text
    assert record.parse(text) == SEALED


def test_text_is_the_documented_one() -> None:
    assert json.loads(record.dump(SEALED)) == {
        "version": 1,
        "job": "0f2e",
        "number": 4,
        "phase": "Sealed",
        "reason": "PodLost",
        "plan": "0-2",
        "absent": "1",
        "suspects": [],
        "sealed": 4,
        "members": ["0:77aa01bc", "2:00c0ffee"],
        "store": "10.244.1.5:39201",
        "failures": 2,
        "notice": {"id": "n1", "graceSeconds": 30},
        "minNodes": 2,
        "sizes": "1-2,4",
        "result": "",
        "writer": "77aa01bc.12",
    }


def test_why_it_was_closed_is_kept_in_so_many_characters_and_of_no_other_phase() -> None:
    over = changing.closed(SEALED, Result.FAILED, "x" * 600)
    assert over.end == "x" * record.MAX_END
    assert record.parse(record.dump(over)) == over
    with pytest.raises(RecordError, match="goes with Closed only"):
        record.parse(changed(end="too early"))


def test_a_record_of_a_writer_that_knows_no_minimum_is_read() -> None:
    new = ("minNodes", "sizes")
    old = {key: value for key, value in json.loads(record.dump(SEALED)).items() if key not in new}
    assert record.parse(json.dumps(old)) == dataclasses.replace(SEALED, min_nodes=0, sizes=frozenset())


def test_numbers_that_a_status_can_hold_are_read() -> None:
    largest = 2**31 - 1
    assert record.parse(changed(number=largest, sealed=largest, failures=largest)).failures == largest


def test_thousand_members_fit() -> None:
    members = tuple(Member(slot, f"{slot:08x}") for slot in range(slots.MAX_SLOTS))
    text = record.dump(dataclasses.replace(SEALED, plan=frozenset(range(slots.MAX_SLOTS)), members=members))
    assert len(text) < 20 * slots.MAX_SLOTS
    assert record.parse(text).members == members


@pytest.mark.parametrize(
    "text",
    [
        "",
        "}{",
        "null",
        "[]",
        "1",
        "cos\nsystem\n(S'touch /tmp/x'\ntR.",
        "[" * 100_000,
        " " * (record.MAX_BYTES + 1),
        changed(version=2),
        changed(version=0),
        changed(version=True),
        changed(version="1"),
        changed(number=0),
        changed(number="4"),
        changed(number=True),
        changed(phase="Sleeping"),
        changed(reason="Because of it"),
        changed(reason=""),
        changed(reason="x" * 65),
        changed(plan="0-"),
        changed(absent="7"),
        changed(suspects=["nobody"]),
        changed(sealed=5),
        changed(members=["0:77aa01bc", "0:00c0ffee"]),
        changed(members=["0:77aa01bc", "1:77aa01bc"]),
        changed(members=["9999:77aa01bc"]),
        changed(members=[]),
        changed(store=""),
        changed(store="; rm -rf /"),
        changed(notice="soon"),
        changed(minNodes=-1),
        changed(minNodes=None),
        changed(result="Succeeded"),
        changed(phase="Open"),
        changed(phase="Closed"),
        changed(number=2**31, sealed=2**31),
        changed(failures=2**31),
        changed(notice={"id": "n1", "graceSeconds": 2**31}),
    ],
)
def test_what_is_not_a_record_is_an_error_and_never_an_empty_one(text: str) -> None:
    with pytest.raises(RecordError):
        record.parse(text)


# Other versions


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
REASONS = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,63}", fullmatch=True)
LATER: list[Callable[[Record], Record]] = [
    lambda r: changing.amended(r, plan={0, 1, 2, 3}),
    lambda r: changing.noticed(r, None),
    lambda r: changing.bounded(r, min_nodes=1, sizes=()),
    changing.finishing,
    lambda r: changing.closed(r, Result.FAILED, "why"),
    lambda r: changing.opened(r, Reason.RESIZED),
    lambda r: changing.sealed(changing.opened(r, Reason.POD_LOST), r.members, r.store),
]


@given(st.dictionaries(st.text(min_size=1), JSON, max_size=4), REASONS)
def test_what_a_newer_version_may_write_is_read_and_kept(fields: dict[str, Any], reason: str) -> None:
    more = {key: value for key, value in fields.items() if key not in record._KEYS}

    found = record.parse(changed(**more, reason=reason))

    assert (found.reason.value, dataclasses.replace(found, more="", reason=SEALED.reason)) == (reason, SEALED)
    for later in LATER:
        text = record.dump(later(found))
        assert json.loads(text).items() >= more.items()
        assert record.parse(text) == later(found)


def test_more_than_is_sensible_is_let_go() -> None:
    assert record.parse(changed(more="x" * record.MAX_MORE)) == SEALED


def test_a_reason_of_a_newer_version_is_none_of_ours() -> None:
    found = record.parse(changed(reason="NodeDefragmented")).reason
    assert found not in set(Reason)
    assert found == Reason("NodeDefragmented")
    assert copy.deepcopy(found) == found


def test_a_record_of_a_version_to_come_is_said_to_be_one() -> None:
    with pytest.raises(NewerError, match="version 2, and 1 is understood here: upgrade"):
        record.parse(changed(version=2, phase="Sleeping"))


@given(st.text() | st.dictionaries(st.sampled_from(list(json.loads(record.dump(SEALED)))), st.text()).map(json.dumps))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    with pytest.raises(RecordError):
        record.parse(text)


@given(
    st.sampled_from(list(json.loads(record.dump(SEALED)))), st.none() | st.integers() | st.text() | st.lists(st.text())
)
def test_any_field_of_any_kind_is_read_or_refused(field: str, value: object) -> None:
    try:
        found = record.parse(changed(**{field: value}))
    except RecordError:
        return
    assert record.parse(record.dump(found)) == found


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"number": 0}, "start at 1"),
        ({"sealed": 5}, "never ahead"),
        ({"members": (Member(0, "77aa01bc"), Member(0, "00c0ffee"))}, "one member a slot"),
        ({"store": ""}, "members and a store"),
        ({"sealed": 3}, "is the last sealed one"),
        ({"phase": Phase.OPEN}, "not sealed yet"),
        ({"result": Result.FAILED}, "with Closed only"),
        ({"absent": frozenset({9})}, "slots of the plan"),
    ],
)
def test_invariants_are_checked_when_a_record_is_made(fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(RecordError, match=rule):
        dataclasses.replace(SEALED, **fields)
