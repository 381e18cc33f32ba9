"""Which cluster nodes a job's new pods keep away from: those on which its pods failed for no fault of their own.

A memory of the job's own, short and soon forgotten: the operator judges no machine for others, cordons none, and a job
must not run out of places because of it.
"""

from collections.abc import Iterable, Iterator

from elasticjob_operator.api.failures import FailureClass
from elasticjob_operator.api.status import BadNode
from elasticjob_operator.core import classing, forsaking, leaving
from elasticjob_operator.core.situation import Situation
from elasticjob_rendezvous.round.record import Phase

TOO_OFTEN = 2
"""Failures after which a cluster node is avoided: one may be chance."""

FORGOTTEN_SECONDS = 3600
MOST = 8
"""Cluster nodes remembered: the last ones."""


def remembered(situation: Situation) -> tuple[BadNode, ...]:
    """The memory with what is seen now."""
    if situation.record.phase is Phase.CLOSED:
        return ()
    known = {bad.name: bad for bad in situation.status.bad_nodes if _fresh(situation, bad)}
    for name, count in _bad(situation):
        before = known.pop(name, BadNode(name))
        known[name] = BadNode(name, before.failures + count, situation.now)
    return tuple(sorted(known.values(), key=lambda bad: bad.time)[-MOST:])


def avoided(known: Iterable[BadNode]) -> tuple[str, ...]:
    """Names of the cluster nodes to keep away from."""
    return tuple(sorted(bad.name for bad in known if bad.failures >= TOO_OFTEN))


def left(situation: Situation) -> Iterator[int]:
    """Seconds until a cluster node is forgotten that pods wait for in vain, perhaps."""
    return (FORGOTTEN_SECONDS - situation.since(bad.time) for bad in situation.status.bad_nodes)


def _fresh(situation: Situation, bad: BadNode) -> bool:
    return situation.since(bad.time) < FORGOTTEN_SECONDS


def _bad(situation: Situation) -> Iterator[tuple[str, int]]:
    """Cluster nodes that something speaks against, and how much."""
    policy = situation.spec.failure_policy
    for pod in situation.counters.failed:
        if pod.node and classing.of_pod(pod, policy) is FailureClass.INFRASTRUCTURE:
            yield pod.node, 1
    pods = {pod.name: pod for pod in situation.observed.pods}
    yield from ((pods[gone.name].node, 1) for gone in forsaking.given_up(situation))
    yield from ((pods[gone.name].node, TOO_OFTEN) for gone in leaving.evacuated(situation))
