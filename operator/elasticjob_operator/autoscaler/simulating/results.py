"""What came of a replay, in the figures that the papers use."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elasticjob_operator.autoscaler.simulating import jobs


@dataclasses.dataclass
class Result:
    """Filled by the replay."""

    finished: list[jobs.Running] = dataclasses.field(default_factory=list)
    unfinished: list[jobs.Running] = dataclasses.field(default_factory=list)
    timeline: list[tuple[float, str, int]] = dataclasses.field(default_factory=list)
    """(when, job, accelerators from then on)."""
    needless_waits: int = 0
    """Decisions times jobs that had nothing although all minimums would have fitted."""
    offered: float = 0.0
    """Accelerator-seconds that the cluster had while there were jobs."""
    offered_to: dict[str, float] = dataclasses.field(default_factory=lambda: collections.defaultdict(float))
    """The same while a queue had jobs, by queue."""
    stops: int = 0
    """Times a job that had pods was left with none."""
    lost_work: float = 0.0
    """Accelerator-seconds of progress gone with pods that vanished."""

    @property
    def busy(self) -> float:
        """Accelerator-seconds that jobs held, changes included."""
        return sum(run.served for run in (*self.finished, *self.unfinished))

    @property
    def waits(self) -> list[float]:
        """Seconds that finished jobs were without any node."""
        return [max((run.finished or 0.0) - run.job.submitted - run.ran, 0.0) for run in self.finished]

    def of(self, queue: str) -> Result:
        """One queue's part, as far as there are figures of it."""
        finished, unfinished = (
            [run for run in runs if run.job.home == queue] for runs in (self.finished, self.unfinished)
        )
        return Result(finished=finished, unfinished=unfinished, offered=self.offered_to[queue])

    @property
    def times(self) -> list[float]:
        """Seconds from submission to the end, ascending."""
        return sorted((run.finished or 0.0) - run.job.submitted for run in self.finished)

    @property
    def mean(self) -> float:
        """Mean of them."""
        return statistics.fmean(self.times)

    @property
    def p99(self) -> float:
        """The lower order statistic at 99 %, as numpy's `lower`: of 160 jobs the 158th. What the goal was set by."""
        return self.times[int(0.99 * (len(self.times) - 1))]

    @property
    def p99_linear(self) -> float:
        """As numpy's default, between that one and the next."""
        return interpolated(self.times, 0.99)

    @property
    def makespan(self) -> float:
        """Seconds from the trace's begin to the last end."""
        return max(run.finished or 0.0 for run in self.finished)

    @property
    def end(self) -> float:
        """Seconds from the trace's begin to the last change of anybody's accelerators."""
        return max((at for at, _, _ in self.timeline), default=0.0)

    @property
    def changes(self) -> float:
        """Changes of pods per job, first starts not counted."""
        return statistics.fmean(run.changes for run in self.finished)

    def unfairness(self, accelerators: int, resize_cost: float) -> list[float]:
        """Finish-time fairness of each job: its time over its time alone on an equal share of the cluster.

        The share is the cluster divided by the mean number of jobs present during the job's life (at least one),
        rounded down to a size it can have; below its minimum it would run that part of the time. Both pay one start.
        """
        crowd = _Crowd([(run.job.submitted, run.finished or 0.0) for run in self.finished])
        return [_unfairness(run, accelerators / run.job.accelerators, resize_cost, crowd) for run in self.finished]


def interpolated(ordered: Sequence[float], part: float) -> float:
    """A percentile of ascending values, linear between neighbours."""
    rank = part * (len(ordered) - 1)
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (rank - low) * (ordered[high] - ordered[low])


def _unfairness(run: jobs.Running, nodes: float, resize_cost: float, crowd: _Crowd) -> float:
    job, end = run.job, run.finished or 0.0
    share = nodes / max(crowd.mean(job.submitted, end), 1.0)
    sizes = [size for size in job.profile.rates if job.minimum <= size <= min(share, job.maximum)]
    if sizes:
        alone = job.work / max(job.profile.packed(size) for size in sizes)
    else:
        alone = job.work / job.profile.packed(job.minimum) * job.minimum / share
    return (end - job.submitted) / (alone + resize_cost)


class _Crowd:
    """How many jobs are present, and the mean of that over any time."""

    def __init__(self, lives: list[tuple[float, float]]) -> None:
        changes = sorted([(begin, 1) for begin, _ in lives] + [(end, -1) for _, end in lives])
        self._at, self._area, self._count = [0.0], [0.0], [0]
        for when, more in changes:
            self._area.append(self._area[-1] + self._count[-1] * (when - self._at[-1]))
            self._at.append(when)
            self._count.append(self._count[-1] + more)

    def mean(self, begin: float, end: float) -> float:
        return (self._integral(end) - self._integral(begin)) / max(end - begin, 1e-9)

    def _integral(self, when: float) -> float:
        i = bisect.bisect_right(self._at, when) - 1
        return self._area[i] + self._count[i] * (when - self._at[i])
