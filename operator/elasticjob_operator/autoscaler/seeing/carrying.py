"""From decisions to grants: who gives goes first, and who gets waits until it is free.

So nobody's pods stand pending for room that others still leave, and Kubernetes' own preemption, which gives no notice,
finds nothing to do. A grant that only waits for room keeps the words of the decision that promised it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from elasticjob_operator.api import allocation as allocations
from elasticjob_operator.api import words
from elasticjob_operator.autoscaler import decision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elasticjob_operator.autoscaler import snapshot
    from elasticjob_operator.autoscaler.seeing import measuring, picture

Promises = dict[str, decision.Grant]
"""Growth that was decided and waits for its room, by the jobs' names in the snapshot."""

WAITING = decision.Reason.WAITING


class Room:
    """Devices that are free at this moment, while grants take them."""

    def __init__(self, seen: picture.Picture) -> None:
        self._free = seen.stock.free()
        self._kinds = {node.name: node.kind for node in seen.snapshot.cluster_nodes}

    def take(self, job: snapshot.Job, placement: tuple[snapshot.Placement, ...], pods: int, *, partly: bool) -> bool:
        """Whether so many more pods found room; with *partly*, those that fit take it though others don't."""
        kinds = {self._kinds.get(placed.cluster_node) for placed in placement}
        names = [name for name in self._free if job.candidates is None or name in job.candidates]
        best = {placed.cluster_node for placed in placement}
        names = sorted(
            (name for name in names if not kinds or self._kinds.get(name) in kinds),
            key=lambda name: (name not in best, -self._free[name], name),
        )
        fits = {name: self._free[name] // job.accelerators for name in names}
        if sum(fits.values()) < pods and not partly:
            return False
        for name in names:
            part = min(fits[name], pods)
            self._free[name] -= part * job.accelerators
            pods -= part
        return pods <= 0


def carried(
    made: decision.Decision,
    seen: picture.Picture,
    memories: Mapping[str, measuring.Memory],
    promises: Promises,
    now: int,
    *,
    dry_run: bool = False,
    firm: bool = True,
) -> tuple[dict[str, allocations.Allocation], Promises]:
    """What each job has from now on, by UID, and the promises that stand.

    *firm*: minimums that are the autoscaler's affair are not for spot.
    """
    jobs = {job.name: job for job in seen.snapshot.jobs}
    room, kept = Room(seen), Promises()
    for job in jobs.values():  # what was granted and is not bound yet comes first
        missing = (job.pinned if job.pinned is not None else job.granted) - len(seen.seen[job.name].bound)
        if job.accelerators > 0 and missing > 0:
            room.take(job, (), missing, partly=True)
    found = {}
    for decided in sorted(made.grants, key=lambda g: (-jobs[g.job].priority, g.before > 0, -jobs[g.job].age, g.job)):
        one, job = seen.seen[decided.job], jobs[decided.job]
        grant = _pinned(decided, one) or _kept_words(decided, promises.get(decided.job))
        more = grant.nodes - max(job.granted, len(one.bound)) if job.pinned is None else 0
        waits = not dry_run and job.accelerators > 0 and more > 0
        if waits and not room.take(job, grant.placement, more, partly=False):
            kept[grant.job] = grant
            grant = _put_off(grant)
        found[one.job.uid] = dataclasses.replace(
            _allocation(grant, one, job, memories.get(one.job.uid), now),
            dry_run=dry_run,
            firm=firm and job.pinned is None and job.accelerators > 0,
        )
    return found, kept


def _pinned(grant: decision.Grant, one: picture.Seen) -> decision.Grant | None:
    """A person's size stands, whatever was decided."""
    if one.wish.nodes is None:
        return None
    reason, message = decision.Reason.PINNED, f"spec.nodes is {one.wish.nodes}, so the autoscaler leaves it at that"
    return dataclasses.replace(grant, nodes=one.wish.nodes, reason=reason, message=message, ask=0)


def _kept_words(grant: decision.Grant, promise: decision.Grant | None) -> decision.Grant:
    if promise is None or (promise.before, promise.nodes) != (grant.before, grant.nodes):
        return grant
    return dataclasses.replace(grant, reason=promise.reason, message=promise.message)


def _put_off(grant: decision.Grant) -> decision.Grant:
    message = f"waits until the accelerators for {words.counted(grant.nodes, 'node')} are free"
    return dataclasses.replace(
        grant, nodes=grant.before, reason=decision.Reason.KEPT if grant.before else WAITING, message=message, ask=0
    )


def _allocation(
    grant: decision.Grant, one: picture.Seen, job: snapshot.Job, memory: measuring.Memory | None, now: int
) -> allocations.Allocation:
    """The grant for the job's status. One that says the same as before keeps its words and its time."""
    known = one.job.status.allocation
    same = known is not None and (known.nodes, known.pending) == (grant.nodes, grant.ask)
    made = allocations.Allocation(
        nodes=grant.nodes,
        pending=grant.ask,
        reason=grant.reason.value,
        message=grant.message[: allocations.MAX_MESSAGE],
        time=now,
        served=int(job.served),
        tried=memory.knowledge.tried if memory else 0,
        resize_seconds=memory.resize_seconds if memory else None,
        throughput=memory.points(known.throughput if known else ()) if memory else (),
    )
    if known is None or not same:
        return made
    words = (known.reason, known.message) if _goes_on(grant, known) else (made.reason, made.message)
    return dataclasses.replace(made, reason=words[0], message=words[1], time=known.time, served=known.served)


def _goes_on(grant: decision.Grant, known: allocations.Allocation) -> bool:
    """Whether the words of the decision that led here still say it: a size that stands, a wait for the same reason."""
    gave_way = known.reason == decision.Reason.PREEMPTED.value and grant.reason is WAITING
    return bool(grant.nodes) or gave_way or known.reason == grant.reason.value
