"""How long a rendezvous goes on in trouble, how often it asks meanwhile, and with which of torch's errors it ends."""

from __future__ import annotations

import random
import time
import types
from typing import TYPE_CHECKING, Any

import pytest
from torch.distributed.elastic.rendezvous import (
    RendezvousConnectionError,
    RendezvousStateError,
    RendezvousTimeoutError,
)

from elasticjob_rendezvous import board, forming, kube, mirror, patience, seating, session, stores
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Result, dump

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time that passes only where somebody sleeps."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(random, "uniform", lambda low, high: (low + high) / 2)
    return now


def session_of(*, planned: bool = False, limit: float = 0.0, synced: bool = True, **changes: Any) -> Any:
    made = types.SimpleNamespace(
        config=types.SimpleNamespace(planned=planned, low=2, high=4, slot=None),
        timers=types.SimpleNamespace(join_timeout=limit),
        board=types.SimpleNamespace(view=board.View(problem="there is no ConfigMap"), synced=synced),
        trouble=lambda: None,
        label=lambda: "x",
    )
    vars(made).update(changes)
    return made


def where() -> str:
    return "arrived: [0]"


# The deadline


def test_too_few_nodes_are_a_timeout(clock: list[float]) -> None:
    waiting = patience.Patience(session_of(limit=10))
    clock[0] += 10
    waiting.check(where)
    clock[0] += 0.1
    with pytest.raises(RendezvousTimeoutError, match=r"within 10 s: arrived: \[0\]"):
        waiting.check(where)


def test_a_record_that_cannot_be_read_for_so_long_is_a_corrupt_state(clock: list[float]) -> None:
    corrupt = session_of(limit=10, planned=True)
    corrupt.board.view = board.View(body={}, problem="unreadable")
    waiting = patience.Patience(corrupt)
    clock[0] += 11
    with pytest.raises(RendezvousStateError):
        waiting.check(where)


def test_without_a_deadline_there_is_none(clock: list[float]) -> None:
    waiting = patience.Patience(session_of(planned=True))
    clock[0] += 1e6
    waiting.check(where)


# The API server


@pytest.mark.parametrize(("planned", "synced"), [(True, False), (False, True)])
def test_an_api_server_out_of_reach_ends_nobody_who_has_known_it_or_has_an_operator(
    clock: list[float],
    planned: bool,  # noqa: FBT001 - a table's column
    synced: bool,  # noqa: FBT001
) -> None:
    away = session_of(planned=planned, synced=synced, trouble=lambda: kube.UnreachableError("refused"))
    waiting = patience.Patience(away)
    clock[0] += 3600
    waiting.check(where)


def test_an_api_server_that_was_never_there_is_told(clock: list[float]) -> None:
    waiting = patience.Patience(session_of(synced=False, trouble=lambda: kube.UnreachableError("refused")))
    clock[0] += patience.UNREACHED
    waiting.check(where)
    clock[0] += 1
    with pytest.raises(RendezvousConnectionError, match=r"is its address right.*refused"):
        waiting.check(where)


def test_rights_that_a_watch_lacks_end_it_after_a_while(clock: list[float]) -> None:
    trouble: list[kube.KubeError | None] = [kube.ForbiddenError("list leases is forbidden")]
    waiting = patience.Patience(session_of(trouble=lambda: trouble[0]))
    waiting.check(where)
    clock[0] += patience.REFUSED
    waiting.check(where)
    trouble[0] = None
    waiting.made()
    trouble[0] = kube.ForbiddenError("list leases is forbidden")
    clock[0] += 1
    waiting.check(where)
    clock[0] += patience.REFUSED + 1
    with pytest.raises(RendezvousConnectionError, match="list leases is forbidden"):
        waiting.check(where)


def test_a_minute_without_an_api_server_costs_few_requests_and_nothing_else(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[float] = []
    formed = object()

    def step() -> object:
        if clock[0] > 1060:
            return formed
        tries.append(clock[0])
        raise kube.UnreachableError("connection refused")

    waiting = session_of(changed=types.SimpleNamespace(clear=lambda: None), look=lambda *, wanted: None)
    former = forming.Forming(waiting)
    monkeypatch.setattr(former, "_step", step)
    assert former.run() is formed
    assert len(tries) <= 15
    assert clock[0] - 1060 <= mirror.LONGEST_PAUSE, "it goes on soon after"


# The slot


@pytest.mark.parametrize(
    ("taken", "high", "found"),
    [((), 3, [0, 1, 2]), ({0, 2}, 4, [1, 3]), ({0, 1}, 2, [2]), (set(range(1024)), 9, [1023])],
)
def test_slots_to_choose_among(taken: set[int], high: int, found: list[int]) -> None:
    assert seating.choices(taken, high) == found


def test_a_thousand_that_start_at_once_spread_out() -> None:
    """Each choice that was lost to another makes the next one wider, up to all that are free."""
    free, tries = set(range(1024)), 0
    waiting = [seating.WIDTH] * 1024
    chance = random.Random(7)  # noqa: S311 - not cryptography
    while waiting:
        choices = sorted(free)
        wanted = [chance.choice(choices[:width]) for width in waiting]
        tries += len(waiting)
        free -= set(wanted)
        waiting = [width * seating.WIDTH for width in waiting[len(set(wanted)) :]]
    assert tries <= 6 * 1024


# Where workers meet


@pytest.mark.parametrize(
    ("env", "shared"),
    [
        ({}, True),
        ({"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "0"}, True),
        ({"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}, False),
        ({"USE_LIBUV": "0"}, False),
    ],
)
def test_workers_share_the_agents_store_unless_they_cannot_or_must_not(
    env: dict[str, str],
    shared: bool,  # noqa: FBT001 - a table's column
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "USE_LIBUV"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert stores.shared_with_workers() is shared
    assert (stores.port_for_workers("127.0.0.1:1") == 1) is shared


# Ending


def test_an_agent_that_ends_frees_its_slot_as_soon_as_it_can_and_not_for_ever(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, leaving: Callable[[float], list[float]]
) -> None:
    assert 1 < len(leaving(1005.0)) < 10
    clock[0] = 1000.0
    tries = leaving(1e9)
    assert len(tries) < 15
    assert clock[0] <= 1000 + 30 + mirror.LONGEST_PAUSE


@pytest.fixture
def leaving(clock: list[float]) -> Callable[[float], list[float]]:
    """The moments at which a session tried to release its slot, where the API is back at the given one."""

    def leave(back: float) -> list[float]:
        tries: list[float] = []

        def release(**_: bool) -> None:
            tries.append(clock[0])
            if clock[0] < back:
                raise kube.UnreachableError("connection refused")

        mine = object.__new__(session.Session)
        mine.timers = types.SimpleNamespace(close_timeout=30.0)  # type: ignore[assignment]  # as far as needed
        mine.seat = types.SimpleNamespace(held=False, lost=False, slot=0, release=release, settle=lambda: None)  # type: ignore[assignment]
        mine.round, mine._leave_until, mine.nonce = None, 0.0, "0000000a"
        mine.board = types.SimpleNamespace(view=board.View())  # type: ignore[assignment]
        mine.config = types.SimpleNamespace(name="a")  # type: ignore[assignment]
        mine.leave()
        return tries

    return leave


def test_a_record_of_another_run_is_over_or_is_waited_for() -> None:
    over = changing.closed(changing.started("old", ()), Result.FAILED)
    mine = board.Board(types.SimpleNamespace(), job_name="a", job="new", nonce="0000000a", changed=lambda: None)
    for record, ended in ((over, True), (changing.started("old", ()), False)):
        view = mine._believed({"metadata": {}, "data": {"round": dump(record)}})
        assert (view.record, view.other_run, view.over) == (None, "old", ended)
