"""The record, the Lease and the mirror on an API server: the same cases on the fake one and on the real one."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import pytest

from elasticjob_rendezvous import board, kube, mirror, seat
from elasticjob_rendezvous.round import changing, lease
from elasticjob_rendezvous.round.record import KEY, Member, Phase, Reason
from support import rendezvous_api
from support.rendezvous_jobs import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.rendezvous_api import FakeApi, Request
    from support.rendezvous_jobs import Job


@pytest.fixture
def boards(either_job: Job) -> Iterator[Callable[[str], board.Board]]:
    """Makes boards of one job as processes of that nonce see it."""
    made: list[board.Board] = []

    def make(nonce: str, *, job: str = "") -> board.Board:
        new = board.Board(
            either_job.api, job_name=either_job.name, job=job or either_job.uid, nonce=nonce, changed=lambda: None
        )
        new.start()
        made.append(new)
        return new

    yield make
    for each in made:
        each.stop()


def sit(job: Job, slot: int, nonce: str) -> seat.Seat:
    return seat.Seat(job.api, job_name=job.name, job=job.uid, slot=slot, pod="pod", nonce=nonce, limit=10)


# The record


def annotate(job: Job, mine: seat.Seat, more: dict[str, str]) -> None:
    """Somebody else writes into the Lease of a slot."""
    body = job.api.get(kube.LEASE, mine.name)
    assert body is not None
    body["metadata"]["annotations"] |= more
    assert job.api.replace(kube.LEASE, body)


def annotated(job: Job, mine: seat.Seat) -> dict[str, str]:
    """What is not ours in the Lease of a slot."""
    body = job.api.get(kube.LEASE, mine.name)
    assert body is not None
    return {k: v for k, v in body["metadata"]["annotations"].items() if k not in lease.KEYS}


def test_everybody_sees_what_one_writes(either_job: Job, boards: Callable[..., board.Board]) -> None:
    either_job.plan([0, 1])
    one, two = boards("0000000a"), boards("0000000b")
    view = until(lambda: one.view.record and one.view, "read")
    until(lambda: two.view.record, "read")
    assert one.write(view, changing.amended(view.record, absent={1}))
    assert one.view.record is not None
    assert one.view.record.absent == {1}, "the writer sees its own write at once"
    until(lambda: two.view.record and two.view.record.absent == {1}, "seen by the other")
    assert two.view.record is not None
    assert two.view.record.writer == "0000000a.1"


def test_of_two_writes_over_the_same_view_one_loses(either_job: Job, boards: Callable[..., board.Board]) -> None:
    either_job.plan([0, 1])
    one, two = boards("0000000a"), boards("0000000b")
    first = until(lambda: one.view.record and one.view, "read")
    second = until(lambda: two.view.record and two.view, "read")
    assert one.write(first, changing.amended(first.record, absent={1}))
    assert not two.write(second, changing.amended(second.record, absent={0}))
    assert two.view.record is not None
    assert two.view.record.absent == {1}, "who lost has read what won"


def test_record_is_created_once(either_job: Job, boards: Callable[..., board.Board]) -> None:
    one, two = boards("0000000a"), boards("0000000b")
    until(lambda: all("there is no ConfigMap" in each.view.problem for each in (one, two)), "looked")
    first, nothing = changing.started(either_job.uid, ()), two.view
    assert one.write(one.view, first)
    assert not two.write(nothing, first)
    assert either_job.record().writer == "0000000a.1"


def test_number_never_goes_back(either_job: Job, boards: Callable[..., board.Board]) -> None:
    either_job.plan([0])
    one = boards("0000000a")
    view = until(lambda: one.view.record and one.view, "read")
    sealed = changing.sealed(view.record, [_member()], "10.0.0.1:1")
    assert one.write(view, sealed)
    assert one.write(one.view, changing.opened(sealed, Reason.RESIZED))
    with pytest.raises(ValueError, match="only grow"):
        one.write(one.view, view.record)
    either_job.change(lambda _: view.record)
    until(lambda: "went back to round 1 after 2" in one.view.problem, "not believed")
    assert one.view.record is None


def test_other_jobs_and_unreadable_records_are_problems(either_job: Job, boards: Callable[..., board.Board]) -> None:
    either_job.plan([0])
    other = boards("0000000a", job="another")
    until(lambda: "belongs to another job" in other.view.problem, "refused")
    one = boards("0000000b")
    until(lambda: one.view.record, "read")
    body = either_job.api.get(kube.CONFIG_MAP, one.name)
    assert body is not None
    assert either_job.api.replace(kube.CONFIG_MAP, {**body, "data": {KEY: "cos\nsystem\n(S'true'\ntR."}})
    until(lambda: "unreadable round record" in one.view.problem, "refused")
    assert one.view.record is None
    assert one.view.body is not None


def _member() -> Member:
    return Member(0, "0000000a")


# The Lease


def test_slot_is_taken_by_one(either_job: Job) -> None:
    either_job.plan([0])
    one, two = sit(either_job, 0, "0000000a"), sit(either_job, 0, "0000000b")
    assert one.read()
    assert two.read()
    assert one.take(1, "10.0.0.1:1")
    assert not two.take(1, "10.0.0.2:1")
    found = two.sighting()
    assert found is not None
    assert (found.lease.nonce, found.lease.arrived, found.limit) == ("0000000a", 1, 10)
    assert (one.held, two.held) == (True, False)


def test_lease_that_is_not_there_is_created(either_job: Job) -> None:
    alone = sit(either_job, 3, "0000000a")
    assert alone.read() is None
    assert alone.take(1, "10.0.0.1:1")
    assert either_job.leases()[3].lease.nonce == "0000000a"


def test_writes_keep_what_others_have_put_there(either_job: Job) -> None:
    either_job.plan([0])
    mine = sit(either_job, 0, "0000000a")
    mine.read()
    assert mine.take(1, "10.0.0.1:1")
    annotate(either_job, mine, {"example.com/note": "keep me"})
    assert mine.write(finished=1)
    assert annotated(either_job, mine)["example.com/note"] == "keep me"
    assert either_job.leases()[0].lease.finished == 1


def test_lease_taken_over_is_lost_for_good(either_job: Job) -> None:
    either_job.plan([0])
    old, new = sit(either_job, 0, "0000000a"), sit(either_job, 0, "0000000b")
    old.read()
    assert old.take(1, "10.0.0.1:1")
    new.read()
    assert new.take(1, "10.0.0.2:1")
    assert not old.write()
    assert old.lost
    old.release()
    assert either_job.leases()[0].lease.nonce == "0000000b", "nobody releases another's slot"


def test_released_slot_is_free_and_remembers_what_it_saw(either_job: Job) -> None:
    either_job.plan([0])
    mine = sit(either_job, 0, "0000000a")
    mine.read()
    assert mine.take(4, "10.0.0.1:1")
    mine.release()
    found = either_job.leases()[0].lease
    assert found.free
    assert (found.arrived, found.store, found.seen, found.left) == (0, "", 4, "")


def test_who_leaves_a_wanted_slot_is_named_until_the_next_holder(either_job: Job) -> None:
    either_job.plan([0])
    mine, next_one = sit(either_job, 0, "0000000a"), sit(either_job, 0, "0000000b")
    mine.read()
    assert mine.take(4, "10.0.0.1:1")
    mine.release(wanted=True)
    assert (either_job.leases()[0].lease.free, either_job.leases()[0].lease.left) == (True, "pod")
    next_one.read()
    assert next_one.take(5, "10.0.0.2:1")
    assert either_job.leases()[0].lease.left == ""


def test_what_a_newer_version_says_of_a_holder_stays_as_long_as_that_holds_the_slot(either_job: Job) -> None:
    either_job.plan([0])
    mine = sit(either_job, 0, "0000000a")
    mine.read()
    assert mine.take(1, "10.0.0.1:1")
    annotate(either_job, mine, {"elasticjob.dev/new": "1", "mine": "2"})
    assert mine.write(arrived=2)
    assert annotated(either_job, mine) == {"elasticjob.dev/new": "1", "mine": "2"}
    mine.release()
    assert annotated(either_job, mine) == {"mine": "2"}


# Lists and watches


def test_mirror_follows_a_jobs_leases(either_job: Job) -> None:
    either_job.plan([0, 1])
    news = threading.Event()
    leases = mirror.Mirror(either_job.api, kube.LEASE, seat.selector(either_job.name), news.set).start()
    until(lambda: leases.synced, "listed")
    assert len(leases.objects) == 4
    mine = sit(either_job, 1, "0000000a")
    mine.read()
    mine.take(1, "10.0.0.1:1")

    def seen() -> bool:
        found = leases.objects[mine.name]
        return seat.sighted(found, default_limit=1).lease.nonce == "0000000a"

    until(seen, "the taken slot")
    leases.stop()


def test_absent_and_existing_objects_are_answers(either_job: Job) -> None:
    api = either_job.api
    assert api.get(kube.CONFIG_MAP, "nowhere") is None
    body = {"metadata": {"name": f"{either_job.name}-x"}, "data": {}}
    created = api.create(kube.CONFIG_MAP, body)
    assert created is not None
    assert api.create(kube.CONFIG_MAP, body) is None
    assert api.replace(kube.CONFIG_MAP, {**created, "data": {"a": "b"}}) is not None
    assert api.replace(kube.CONFIG_MAP, created) is None, "an old version"
    assert api.replace(kube.CONFIG_MAP, {"metadata": {"name": "nowhere", "resourceVersion": "1"}}) is None


# Trouble, on the fake server alone


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (401, kube.ForbiddenError),
        (403, kube.ForbiddenError),
        (422, kube.RejectedError),
        (429, kube.UnreachableError),
        (500, kube.UnreachableError),
        (503, kube.UnreachableError),
    ],
)
def test_every_refusal_has_its_error(fake: FakeApi, fake_job: Job, code: int, error: type[Exception]) -> None:
    def refuse(request: Request) -> None:
        raise rendezvous_api.Refused(code, "because", Retry_After="7")

    fake.disturb = refuse
    with pytest.raises(error, match="because") as raised:
        fake_job.api.get(kube.LEASE, "x")
    if isinstance(raised.value, kube.UnreachableError):
        assert raised.value.retry_after == 7
    assert fake.count() == (2 if code == 401 else 1), "only a token that may be old is tried twice"


def test_forbidden_names_the_rule_that_is_missing(fake: FakeApi, fake_job: Job) -> None:
    def refuse(request: Request) -> None:
        raise rendezvous_api.Refused(403, "no")

    fake.disturb = refuse
    with pytest.raises(kube.ForbiddenError, match="a Role must allow verb list on leases"):
        fake_job.api.list(kube.LEASE, {})


def test_token_is_read_again_when_it_is_not_accepted(fake: FakeApi, fake_job: Job) -> None:
    fake_job.plan([0])
    refused: list[Request] = []

    def once(request: Request) -> None:
        if not refused:
            refused.append(request)
            raise rendezvous_api.Refused(401, "expired")

    fake.disturb = once
    assert fake_job.api.get(kube.LEASE, seat.name_of(fake_job.name, 0)) is not None


def test_connection_that_breaks_is_unreachable(fake: FakeApi, fake_job: Job) -> None:
    def drop(request: Request) -> None:
        raise ConnectionResetError

    fake.disturb = drop
    with pytest.raises(kube.UnreachableError):
        fake_job.api.get(kube.LEASE, "x")


def test_a_slow_server_is_given_more_time_instead_of_the_same_work_again(fake: FakeApi, fake_job: Job) -> None:
    patient = kube.Kube(kubeconfig=fake_job.kubeconfig, timeout=0.2)
    gate = threading.Event()
    slow = iter([gate.wait, gate.wait])

    def hold(request: Request) -> None:
        next(slow, lambda seconds: None)(30)

    fake.disturb = hold
    allowed = [patient.allowed]
    for _ in range(2):
        with pytest.raises(kube.UnreachableError, match="timed out"):
            patient.get(kube.LEASE, "x")
        allowed.append(patient.allowed)
    gate.set()
    assert patient.get(kube.LEASE, "x") is None
    assert allowed == pytest.approx([0.2, 0.4, 0.8])
    assert patient.allowed < 0.8, "an answer says how long the next one may take"


def test_lost_reply_to_a_write_is_found_out(fake: FakeApi, fake_job: Job) -> None:
    fake_job.plan([0])
    one = board.Board(fake_job.api, job_name=fake_job.name, job=fake_job.uid, nonce="0000000a", changed=lambda: None)
    one.start()
    mine = sit(fake_job, 0, "0000000a")
    mine.read()
    view = until(lambda: one.view.record and one.view, "read")

    def lose(request: Request) -> None:
        if request.verb == "update":
            raise ConnectionResetError

    fake.disturb_reply = lose
    assert one.write(view, changing.amended(view.record, absent={0}))
    with pytest.raises(kube.UnreachableError):
        mine.take(1, "10.0.0.1:1")
    fake.disturb_reply = lambda request: None
    before = fake.count("update")
    assert mine.write(arrived=1)
    assert mine.held
    assert fake.count("update") == before, "the write whose reply was lost had been made"
    one.stop()


def test_mirror_lists_again_when_history_is_lost(fake: FakeApi, fake_job: Job) -> None:
    fake_job.plan([0])
    leases = mirror.Mirror(fake_job.api, kube.LEASE, seat.selector(fake_job.name), lambda: None).start()
    until(lambda: leases.synced and fake.count("watch"), "watching")
    fake.forget_history()
    fake.delete("default", "leases", seat.name_of(fake_job.name, 0))
    until(lambda: len(leases.objects) == 3, "the deletion in the gap is noticed")
    leases.stop()


def test_mirror_does_not_hammer_a_server_in_trouble(fake: FakeApi, fake_job: Job) -> None:
    def refuse(request: Request) -> None:
        raise rendezvous_api.Refused(503, "no")

    fake.disturb = refuse
    leases = mirror.Mirror(fake_job.api, kube.LEASE, seat.selector(fake_job.name), lambda: None).start()
    until(lambda: fake.count() >= 4, "tried again and again")
    leases.stop()
    gaps = [later.at - earlier.at for earlier, later in itertools.pairwise(fake.requests[:4])]
    assert all(gap >= mirror.FIRST_PAUSE * 2**number / 2 for number, gap in enumerate(gaps)), gaps


def test_own_write_is_not_undone_by_events_from_before_it(fake: FakeApi, fake_job: Job) -> None:
    fake_job.plan([0])
    seen: list[Phase | None] = []

    def note() -> None:
        seen.append(one.view.record.phase if one.view.record else None)

    one = board.Board(fake_job.api, job_name=fake_job.name, job=fake_job.uid, nonce="0000000a", changed=note)
    one.start()
    until(lambda: one.view.record and fake.count("watch"), "watching")
    fake.frozen = lambda request: True
    fake_job.change(lambda r: changing.amended(r, absent={0}))
    view = one.refresh()
    assert view.record is not None
    assert one.write(view, changing.sealed(view.record, [_member()], "10.0.0.1:1"))
    seen.clear()
    fake_job.change(changing.finishing)
    fake.frozen = lambda request: False
    until(lambda: Phase.FINISHING in seen, "the watch has caught up")
    assert Phase.OPEN not in seen
    one.stop()


def test_an_object_of_another_shape_is_passed_over(fake: FakeApi, fake_job: Job) -> None:
    labels = {lease.JOB_LABEL: fake_job.name, lease.SLOT_LABEL: "first"}
    fake_job.api.create(kube.LEASE, {"metadata": {"name": "odd", "labels": labels}, "spec": {}})
    items, _ = fake_job.api.list(kube.LEASE, seat.selector(fake_job.name))
    with pytest.raises(ValueError, match="first"):
        seat.sighted(mirror.Seen(items[0], 0.0), default_limit=1)


# The watch


def listed(job: Job) -> tuple[set[str], str]:
    """Names and version at the beginning of a watch of a job's Leases, and that it goes on from there."""
    events = job.api.watch(kube.LEASE, seat.selector(job.name), "")
    kind, found = next(events)
    assert kind == kube.LISTED
    mine = sit(job, 0, "0000000a")
    mine.read()
    assert mine.take(1, "10.0.0.1:1")
    kind, changed = next(events)
    assert (kind, changed["metadata"]["name"]) == ("MODIFIED", mine.name)
    return {body["metadata"]["name"] for body in found["items"]}, found["metadata"]["resourceVersion"]


def test_a_watch_begins_with_a_list_of_what_there_is(either_job: Job) -> None:
    either_job.plan([0, 1], most=3)
    names, version = listed(either_job)
    assert names == {seat.name_of(either_job.name, slot) for slot in range(3)}
    assert int(version) > 0


def test_a_server_that_cannot_stream_a_list_is_asked_for_it(fake: FakeApi, fake_job: Job) -> None:
    fake.streams = False
    fake_job.plan([0, 1], most=3)
    for again in (1, 2):
        assert len(listed(fake_job)[0]) == 3
        assert fake.count("list", "leases") == again
        assert fake.count("watch", "leases") == again + 1, "refused once, not again and again"
        fake_job.free(0)
