"""A node that is slower than its peers is named, once it has been for long enough."""

from typing import Any

import pytest

from elasticjob_operator.api import conditions, status
from elasticjob_operator.api.conditions import Condition
from elasticjob_operator.core import deciding, straggling
from elasticjob_rendezvous.round import lease
from elasticjob_rendezvous.round.lease import SlotLease
from elasticjob_rendezvous.round.record import Phase
from support.operator_builders import NOW, a_job, a_pod, a_round, at, held, known_of, running


def seen(*busy: float, phase: Phase = Phase.SEALED, **known: Any) -> Any:
    """A job whose nodes spend so many seconds of a step on their own work."""
    slots = range(len(busy))
    record = a_round(phase, plan=slots)
    job = a_job(nodes=len(busy), maxNodes=8, known=known_of(record, **known))
    leases = [held(slot, busy=seconds) for slot, seconds in enumerate(busy)]
    pods = [a_pod(slot, node=f"n{slot}") for slot in slots]
    return running(slots, job=job, record=record, leases=leases, having=pods)


def said(read: Any) -> Condition | None:
    """The condition."""
    return conditions.find(deciding.decide(read, NOW).status.conditions, conditions.STRAGGLING)


@pytest.mark.parametrize(
    ("busy", "slow"),
    [
        ((1.0, 1.0, 1.6, 1.0), [2]),
        ((1.0, 1.0, 1.4, 1.0), []),
        ((1.0, 1.6), [1]),
        ((3.0, 1.0, 3.0, 1.0, 1.0), [0, 2]),
        ((0.0, 9.0, 0.0), []),
        ((0.0, 9.0, 1.0), [1]),
        ((1.0,), []),
    ],
)
def test_slow_is_who_takes_much_longer_than_the_median_of_the_others(busy: tuple[float, ...], slow: list[int]) -> None:
    assert [one.slot for one in straggling.remembered(at(seen(*busy)))] == slow


def test_since_when_is_remembered_and_forgotten_with_it() -> None:
    before = (status.Slow(1, NOW - 50), status.Slow(0, NOW - 50))

    assert deciding.decide(seen(1.0, 2.0, 1.0, slow=before), NOW).status.slow == (status.Slow(1, NOW - 50),)


def test_only_what_lasts_is_named() -> None:
    short, long = (seen(1.0, 1.8, 1.0, slow=(status.Slow(1, NOW - ago),)) for ago in (59, 60))

    quiet, named = said(short), said(long)
    assert quiet is not None
    assert (quiet.holds, quiet.reason) == (False, "InStep")
    assert named is not None
    assert (named.holds, named.reason) == (True, "NodeSlow")
    assert named.message == "node 1 (digits-1-0 on n1) takes 1.8 times as long as its peers for a step"


def test_nothing_is_said_where_nobody_reports_or_nothing_runs() -> None:
    assert said(seen(0.0, 0.0)) is None
    assert said(seen(1.0, 9.0, phase=Phase.CLOSED)) is None


def test_the_lease_carries_it() -> None:
    told = SlotLease(0, pod="u", nonce="00c0ffee", busy=0.25)

    assert lease.parse(0, "u/00c0ffee", lease.annotations(told)).busy == 0.25
    assert lease.parse(0, "u/00c0ffee", {lease.BUSY: "inf"}).refused
