"""The replay's throughputs as the operator would learn them: noisy reports, one per step, through `learning.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import curves, learning

if TYPE_CHECKING:
    from collections.abc import Callable

    from elasticjob_operator.autoscaler.simulating import jobs


class Learned:
    """Knows nothing of a job before it has run."""

    def __init__(self, noise: Callable[[], float], host: int, first: int = 1) -> None:
        """`noise`: relative error of a report. `host`: pods one cluster node holds. `first`: the largest first size."""
        self._noise = noise
        self._host = host
        self._first = first
        self._known: dict[str, learning.Knowledge] = {}

    def curve(self, run: jobs.Running) -> curves.Curve:
        """What is known by now."""
        return self._of(run).curve

    def measured(self, run: jobs.Running) -> frozenset[int]:
        """Sizes reported from by now."""
        return self._of(run).sizes

    def report(self, run: jobs.Running, seconds: float) -> None:
        """One report for each step in which it made progress."""
        del seconds
        rate = run.rate * (1 + self._noise())
        seen = run.nodes, len(run.pods) > 1
        self._known[run.job.name] = self._of(run).report(seen, rate, self._host, run.job.maximum)

    def _of(self, run: jobs.Running) -> learning.Knowledge:
        first = min(max(self._first, run.job.minimum), run.job.maximum)
        return self._known.setdefault(run.job.name, learning.Knowledge.new(first))
