"""What a job's own progress tells of it: how fast it is at the size it has, and what a change of its size costs.

Progress comes with the time at which rank 0's agent wrote it, by that agent's clock, so only two reports of one round
are compared. The first stretch of a round is left out: caches, compilers and loaders warm up in it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from elasticjob_operator.api import allocation as allocations
from elasticjob_operator.autoscaler import fitting, learning

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from elasticjob_operator.api import allocation, job, status

STRETCH_SECONDS = 10
"""Least time between two reports that are compared: agents write about every ten seconds, in whole ones."""

PATIENCE_SECONDS = 120
"""A job that has trained for so long at a size counts as having tried it, whether it reports or not."""

LEAST_COST, MOST_COST = 1, 3600
"""Seconds; a change that seems to have cost less or more was measured by clocks that disagree."""

DEFAULT_COST = 30
"""Seconds that a change is taken to cost before one was measured (what Pollux assumes)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """One report: the round, how far the job was, when, and whether it is the round's first."""

    round: int
    samples: int
    step: int
    time: int
    first: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered of one job between decisions."""

    knowledge: learning.Knowledge
    resize_seconds: int | None = None
    mark: Mark | None = None
    opened: tuple[int, int] | None = None
    """A round that was open, and since when."""

    def points(self, told: tuple[allocation.Throughput, ...]) -> tuple[allocation.Throughput, ...]:
        """What was measured, for the job's status; what it tells already, until there is twice the evidence."""
        kept = tuple(allocations.Throughput(p.nodes, p.across, p.rate, p.weight) for p in self.knowledge.points)
        kept = kept[-allocations.MAX_POINTS :]
        return told if _evidence(told) == _evidence(kept) else kept


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A job's status, and what was known of its surroundings, at one moment. What comes of it takes milliseconds."""

    job: job.Job
    first: int
    """The largest size without a measurement."""
    across: bool
    """Whether its pods were on more than one cluster node."""
    host: int
    maximum: int
    now: int


def read(memories: Mapping[str, Memory], looks: Iterable[Look]) -> dict[str, Memory]:
    """The memories by UID after these looks, the earliest first."""
    known = dict(memories)
    for look in looks:
        uid, limits = look.job.uid, {"host": look.host, "maximum": look.maximum}
        memory = known.get(uid) or recalled(look.job.status.allocation, first=look.first, **limits)
        known[uid] = observed(memory, look.job, across=look.across, now=look.now, **limits)
    return known


def _evidence(points: tuple[allocation.Throughput, ...]) -> set[tuple[int, bool, int]]:
    return {(p.nodes, p.across, int(math.log2(max(p.reports, 1)))) for p in points}


def recalled(known: allocation.Allocation | None, *, first: int, host: int, maximum: int) -> Memory:
    """What an earlier process has written into the job's status; *first*: the largest size without a measurement."""
    fresh = learning.Knowledge.new(first)
    if known is None:
        return Memory(fresh)
    points = tuple(
        fitting.Point(p.nodes, p.across, p.rate, p.reports)
        for p in known.throughput
        if learning.believable(p.nodes, p.rate, maximum) and p.reports > 0
    )
    host = _together(((p.nodes, p.across) for p in points), host)
    return Memory(learning.recalled(fresh, points, known.tried, host, maximum), known.resize_seconds)


def observed(memory: Memory, told: job.Job, *, across: bool, host: int, maximum: int, now: int) -> Memory:
    """The memory after one more look at the job's status."""
    known = told.status
    if known.round_phase == "Open":
        same = memory.opened is not None and memory.opened[0] == known.round
        return memory if same else dataclasses.replace(memory, opened=(known.round, known.round_time or now))
    if known.round_phase != "Sealed" or known.nodes < 1:
        return memory
    host = _together(((known.nodes, across), *((p.nodes, p.across) for p in memory.knowledge.points)), host)
    memory = _tried(memory, known, host=host, maximum=maximum, now=now)
    mark = _mark(memory, known)
    if mark is None:
        return memory
    memory = _cost(memory, mark)
    return _reported(memory, mark, (known.nodes, across), host=host, maximum=maximum)


def _together(seen: Iterable[learning.Seen], host: int) -> int:
    """Of `host` pods that one cluster node could hold, how many the job may count on to be on one.

    Where pods go is the scheduler's choice, and they stay. One that has spread what would have fitted, and never put
    any together, will do so again: such a job is believed what it has measured, not what packing would give.
    """
    sizes = [one for one in seen if one[0] > 1]
    spread = any(across and nodes <= host for nodes, across in sizes)
    return 1 if spread and all(across for _, across in sizes) else host


def _tried(memory: Memory, known: status.Status, *, host: int, maximum: int, now: int) -> Memory:
    if known.round_time is None or now - known.round_time < PATIENCE_SECONDS:
        return memory
    return dataclasses.replace(memory, knowledge=memory.knowledge.run(known.nodes, host, maximum))


def _mark(memory: Memory, known: status.Status) -> Mark | None:
    """The report, if it is news of the running round."""
    told, when, last = known.progress, known.progress_time, memory.mark
    if told is None or when is None or told.round != known.round:
        return None
    new = last is None or last.round != told.round
    if last is not None and not new and (when <= last.time or told.step == last.step):
        return None
    return Mark(told.round, told.samples, told.step, when, first=new)


def _cost(memory: Memory, mark: Mark) -> Memory:
    """From the round's opening to its first step; the mean of what it was believed to be and what it was now."""
    if not mark.first or memory.opened is None or memory.opened[0] != mark.round or mark.round == 1:
        return memory
    seconds = mark.time - memory.opened[1]
    if not LEAST_COST <= seconds <= MOST_COST:
        return memory
    before = memory.resize_seconds
    return dataclasses.replace(memory, resize_seconds=seconds if before is None else (before + seconds + 1) // 2)


def _reported(memory: Memory, mark: Mark, seen: learning.Seen, *, host: int, maximum: int) -> Memory:
    last = memory.mark
    if mark.first or last is None:
        return dataclasses.replace(memory, mark=mark)
    seconds = mark.time - last.time
    if seconds < STRETCH_SECONDS:
        return memory
    memory = dataclasses.replace(memory, mark=mark)
    if last.first:
        return memory
    done = (mark.samples - last.samples) or (mark.step - last.step)
    return dataclasses.replace(memory, knowledge=memory.knowledge.report(seen, done / seconds, host, maximum))
