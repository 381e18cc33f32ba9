"""A session, its keeper and its forming around an API server that is none: no connection, no waiting."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import resource
import threading
import time
import types
from typing import TYPE_CHECKING, Any

import pytest
from torch.distributed.elastic.rendezvous import RendezvousConnectionError

from elasticjob_rendezvous import (
    board,
    forming,
    handler,
    keeping,
    kube,
    links,
    meeting,
    mirror,
    patience,
    session,
    settings,
    traindir,
)
from elasticjob_rendezvous.round import agent, changing, lease
from elasticjob_rendezvous.round.record import Member, Record, Result

if TYPE_CHECKING:
    from collections.abc import Callable


class Never:
    """An API server that must not be asked."""

    namespace = "default"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time that passes only where somebody sleeps."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., session.Session]:
    def made(*, planned: bool = True) -> session.Session:
        monkeypatch.setenv(traindir.ENV, "")  # put back afterwards
        config = settings.parse(
            endpoint="a",
            run_id="job",
            low=1,
            high=4,
            local_addr="10.0.0.1",
            conf={},
            env={settings.SLOT_ENV: "0"} if planned else {},
        )
        return session.Session(config, Never(), api_url="")  # type: ignore[arg-type]  # never asked

    return made


def sealed(size: int) -> Record:
    members = [Member(slot, f"{slot:08x}") for slot in range(size)]
    return changing.sealed(changing.started("job", range(size)), members, "10.0.0.1:1")


# The Lease


@pytest.mark.parametrize("size", [1, 3, 64, 256, 512, 1024])
def test_an_api_server_out_of_reach_is_outlasted_whatever_the_size(
    size: int, make: Callable[..., session.Session]
) -> None:
    mine = make()
    mine.board._view = board.View(record=sealed(size))
    waits = [mine.renewal() for _ in range(200)]
    assert max(waits) <= mine.timers.fence / 3
    assert min(waits) >= 0.8 * min(max(10, size / 10), 40)


def test_the_first_renewal_too_is_spaced_by_the_jobs_size(
    make: Callable[..., session.Session], clock: list[float]
) -> None:
    mine, written = make(), list[float]()
    keeper = keeping.Keeper(mine)
    mine.board._view = board.View(record=sealed(1024))
    seat = types.SimpleNamespace(held=True, lost=False, renewed=clock[0])

    def write(**_: object) -> bool:
        written.append(clock[0])
        seat.renewed = clock[0]
        return True

    seat.write = write
    mine.seat = seat  # type: ignore[assignment]
    while len(written) < 3:
        keeper._renew()
        clock[0] += 1
    assert all(32 <= after - before <= 41 for before, after in itertools.pairwise([1000.0, *written]))


def test_a_foreign_lease_is_told_of_once(
    make: Callable[..., session.Session], caplog: pytest.LogCaptureFixture
) -> None:
    mine = make()
    labels = {lease.JOB_LABEL: "a", lease.SLOT_LABEL: "1"}
    foreign = mirror.Seen({"metadata": {"name": "b-0", "resourceVersion": "1", "labels": labels}}, 0.0)
    assert [mine._sighted([foreign]) for _ in range(5)] == [{}] * 5
    assert caplog.text.count("none of ours") == 1


def test_two_threads_that_look_make_one_mirror(
    make: Callable[..., session.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    second = threading.Event()

    class Slow:
        def __init__(self, *_: object) -> None:
            made.append(self)
            second.wait(0.2)  # time for another thread to come as far

        def start(self) -> object:
            return self

    mine = make()
    monkeypatch.setattr(mirror, "Mirror", Slow)
    threads = [threading.Thread(target=mine.look, kwargs={"wanted": True}) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(made) == 1


def test_the_limit_of_open_files_is_raised(
    make: Callable[..., session.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [(1024, 524288)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.append(new))
    make()
    make()
    assert limits == [(1024, 524288), (session.OPEN_FILES, 524288)]


@pytest.mark.parametrize("limit", [(4096, 4096), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)])
def test_a_limit_that_is_as_high_as_it_may_be_is_left(
    limit: tuple[int, int], make: Callable[..., session.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: limit)
    monkeypatch.setattr(resource, "setrlimit", lambda *_: pytest.fail("raised"))
    make()


def test_a_limit_that_may_not_be_raised_stops_nobody(
    make: Callable[..., session.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 524288))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    make()


# The keeper


def keeper_of(**changes: Any) -> tuple[keeping.Keeper, list[float]]:
    writes: list[float] = []

    def write(**_: Any) -> bool:
        writes.append(time.monotonic())
        seat.renewed = time.monotonic()
        return True

    seat = types.SimpleNamespace(held=True, lost=False, renewed=0.0, write=write)
    fake = types.SimpleNamespace(
        seat=seat,
        leaving=threading.Event(),
        signs=None,
        round=None,
        label=lambda: "x",
        renewal=lambda: 1.0,
    )
    vars(fake).update(changes)
    keeper = keeping.Keeper(fake)  # type: ignore[arg-type]  # as far as the keeper needs one
    return keeper, writes


def test_the_lease_is_renewed_whatever_else_fails(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise kube.UnreachableError("list leases: 429")

    keeper, writes = keeper_of(round=object())
    monkeypatch.setattr(keeper, "_pass_on", fail)
    monkeypatch.setattr(keeper._stopped, "wait", time.sleep)
    while clock[0] < 1100:
        keeper._turn()
    longest = max(b - a for a, b in itertools.pairwise(writes))
    assert longest <= mirror.LONGEST_PAUSE + 1


def test_peers_are_watched_over_while_the_lease_cannot_be_renewed(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> bool:
        raise kube.UnreachableError("update leases: 503")

    seen: list[object] = []
    seat = types.SimpleNamespace(held=True, lost=False, renewed=0.0, write=fail)
    keeper, _ = keeper_of(round=object(), seat=seat)
    monkeypatch.setattr(keeper, "_pass_on", seen.append)
    monkeypatch.setattr(keeper, "_watch_over", seen.append)
    monkeypatch.setattr(keeper._stopped, "wait", time.sleep)
    keeper._turn()
    assert len(seen) == 2


def test_a_lease_that_was_just_written_is_not_renewed(clock: list[float]) -> None:
    keeper, writes = keeper_of(renewal=lambda: 10.0)
    keeper._session.seat.renewed = clock[0]  # type: ignore[union-attr]  # by the arrival
    for _ in range(99):
        clock[0] += 0.1
        keeper._turn()
    assert writes == []
    clock[0] += 0.2
    keeper._turn()
    assert writes == [clock[0]]


def test_a_round_that_ends_while_it_is_watched_over_is_no_error(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keeper, _ = keeper_of(round=types.SimpleNamespace(pulse=None))
    monkeypatch.setattr(keeper, "_pass_on", lambda _: setattr(keeper._session, "round", None))
    monkeypatch.setattr(keeper, "_watch_over", lambda current: current.pulse)
    keeper._turn()
    assert caplog.text == ""


def test_unanswered_time_is_time_and_not_calls(clock: list[float]) -> None:
    ticks: list[float] = []
    keeper, _ = keeper_of(signs=types.SimpleNamespace(tick=ticks.append))
    for pause in (0.0, 0.0, 0.05, 3600.0):
        clock[0] += pause
        keeper._turn()
    assert ticks == pytest.approx([0.0, 0.0, 0.05, keeping.IDLE_TURN])


# Forming


@pytest.mark.parametrize("error", [kube.ForbiddenError, kube.RejectedError, kube.GoneError])
def test_with_an_operator_a_refusal_is_waited_out(
    error: type[kube.KubeError],
    make: Callable[..., session.Session],
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    formed = object()

    def step() -> object:
        if clock[0] < 1000 + 3600:
            raise error("update leases is forbidden")
        return formed

    former = forming.Forming(make())
    monkeypatch.setattr(former, "_step", step)
    with caplog.at_level(logging.WARNING):
        assert former.run() is formed
    assert 30 <= caplog.text.count("update leases is forbidden") <= 62, "told about once a minute"


@pytest.mark.parametrize("error", [kube.ForbiddenError, kube.RejectedError])
def test_standalone_a_refusal_ends_after_a_while(
    error: type[kube.KubeError],
    make: Callable[..., session.Session],
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def step() -> object:
        raise error("update leases is forbidden")

    former = forming.Forming(make(planned=False))
    monkeypatch.setattr(former, "_step", step)
    with pytest.raises(RendezvousConnectionError, match="forbidden"):
        former.run()
    assert clock[0] - 1000 > patience.REFUSED


def test_a_slot_that_stays_away_is_asked_for_once_in_a_while(
    make: Callable[..., session.Session], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def refused(address: tuple[str, int]) -> links.Peer:
        asked.append(address)
        return links.Peer.GONE

    monkeypatch.setattr(links, "asked", refused)
    mine = make()
    mine.sit(0)
    record = changing.started("job", range(3))
    free, held = lease.SlotLease(2), lease.SlotLease(1, "pod", "0000000b", store="10.0.0.1:1")
    leases = {one.slot: agent.Sighting(one, 0.0, 160.0) for one in (held, free)}
    former = forming.Forming(mine)
    for waited in (0.0, 10.0, 19.0, 21.0, 22.0, 23.0):
        clock[0] = 1000.0 + waited
        former._ask_for_the_missing(agent.Situation(mine.me, record, None, leases=leases, waited=waited))
    assert asked == [("10.0.0.1", 1)], "an operator fills a slot sooner"
    assert former._situation(record).gone == {"0000000b"}


def test_members_accuse_one_after_the_other(
    make: Callable[..., session.Session], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, listed = make(), []
    record = sealed(1024)
    mine.board._view = board.View(record=record)

    def list_leases() -> dict[int, Any]:
        listed.append(clock[0])
        return {}

    monkeypatch.setattr(mine, "list_leases", list_leases)
    former = forming.Forming(mine)
    for rank in (1, 2, 21, 101):
        clock[0] = 1000.0
        former._accuse(meeting.Place(record, rank, "10.0.0.1:1"), {0})
    assert listed == pytest.approx([1000, 1000.05, 1001, 1005], abs=0.06)

    def open_next(seconds: float) -> None:
        mine.board._view = board.View(record=dataclasses.replace(record, number=2, sealed=2))

    monkeypatch.setattr(time, "sleep", open_next)
    former._accuse(meeting.Place(record, 101, "10.0.0.1:1"), {0})
    assert len(listed) == 4, "another has done it meanwhile"


@pytest.mark.parametrize(("rank", "patience"), [(0, 10), (999, 20)])
def test_a_check_in_is_waited_for_while_members_come_however_long_all_need(
    rank: int, patience: int, make: Callable[..., session.Session], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, accused = make(), list[set[int]]()
    place = meeting.Place(sealed(1000), rank, "10.0.0.1:1")
    attempt = meeting.Attempt(place, None)
    former = forming.Forming(mine)
    monkeypatch.setattr(former, "_accuse", lambda _, ranks: accused.append(ranks))

    def wait(seconds: float) -> bool:
        clock[0] += seconds
        if clock[0] < 1090:  # one more claim each time
            attempt.moved, attempt.missing = clock[0], frozenset({7, 8})
        return False

    monkeypatch.setattr(attempt.done, "wait", wait)
    assert former._all_there(place, attempt) is None
    assert clock[0] == pytest.approx(1090 + patience, abs=1)
    assert accused == [{0} if rank else {7, 8}]


# Coming back


@pytest.mark.parametrize(("rank", "turn"), [(1, 0), (3, 0.1), (999, 49.9)])
def test_members_whose_rank_0_is_gone_open_the_next_round_one_after_the_other(
    rank: int, turn: float, make: Callable[..., session.Session], clock: list[float]
) -> None:
    mine, accused = make(), list[float]()
    record = sealed(1000)
    mine.board._view = board.View(record=record)
    signs = types.SimpleNamespace(silent=frozenset({0}), mute=lambda: None)
    current = session.Round(
        meeting.Place(record, rank, "10.0.0.1:1"),
        store=None,  # type: ignore[arg-type]
        pulse=signs,  # type: ignore[arg-type]
        began=clock[0],
    )
    returns = handler.KubernetesRendezvousHandler(mine.config)
    returns._keeper = types.SimpleNamespace(accuse=lambda _: accused.append(clock[0]))  # type: ignore[assignment]
    mine.round = current
    returns._peer_lost(mine, current)
    assert accused == pytest.approx([1000 + turn], abs=current.place.poll)


def test_who_pauses_after_failures_is_heard_until_it_opens_the_next_round(
    make: Callable[..., session.Session], clock: list[float]
) -> None:
    mine, muted, told = make(), list[float](), list[lease.Pause]()
    record = sealed(2)
    mine.board._view = board.View(record=record)
    mine.seat = types.SimpleNamespace(  # type: ignore[assignment]
        slot=0, held=False, lost=False, write=lambda **said: told.append(said["pause"])
    )
    signs = types.SimpleNamespace(silent=frozenset(), mute=lambda: muted.append(clock[0]))
    returns = handler.KubernetesRendezvousHandler(mine.config)
    for pause in (0, 1, 2, 4, 8, 16, 32, 60, 60):
        place = meeting.Place(record, 1, "10.0.0.1:1")
        mine.round = session.Round(place, store=None, pulse=signs, began=clock[0])  # type: ignore[arg-type]
        before, wall = clock[0], time.time()
        returns._come_back(mine)
        assert pause <= muted.pop() - before <= pause + 1
        assert mine.left == record.number
        if pause:
            said = told.pop()
            assert (said.round, said.until >= wall + pause) == (record.number, True), (
                "it is in the Lease, and until when"
            )
    assert (muted, told) == ([], [])


def test_a_job_that_is_over_is_not_waited_for(make: Callable[..., session.Session], clock: list[float]) -> None:
    """Or the operator takes the pod away, and its log, before its agent has ended by itself."""
    mine, before = make(), clock[0]
    record = sealed(2)
    mine.board._view = board.View(record=changing.closed(record, Result.FAILED))
    mine.left = record.number

    handler.KubernetesRendezvousHandler(mine.config)._pause(mine, 60.0)

    assert clock[0] == before
