"""Results as a table for people: one line for each run, under it one for each of its queues."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from elasticjob_operator.api import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elasticjob_operator.api import settings
    from elasticjob_operator.autoscaler.simulating import jobs, results

UNITS = """times are hours, means over the jobs; wait: without any node;
changes of size: per job; share: of the accelerators that there were while it had jobs"""
COLUMNS = (
    ("jobs", 6),
    ("mean", 8),
    ("wait", 8),
    ("p99", 8),
    ("makespan", 10),
    ("changes", 9),
    ("GPU hours", 11),
    ("share", 7),
)
NAMED = 3
"""Jobs named that have not finished; more is noise."""


def head(width: int) -> str:
    """The columns' names, after as much room as the lines' names need."""
    return " " * width + "".join(f"{name:>{room}}" for name, room in COLUMNS) + "\n"


def lines(label: str, run: results.Result, width: int) -> Iterator[str]:
    """A run's line, and its queues' where there are several."""
    yield _line(label, run, width)
    if len(run.offered_to) > 1:
        for queue in sorted(run.offered_to):
            yield _line(f"  {queue}", run.of(queue), width)


def notes(wish: settings.Autoscaler, trace: Sequence[jobs.TraceJob], accelerators: int) -> Iterator[str]:
    """What is allowed in these settings, and perhaps not meant."""
    quotas = sum(queue.quota or 0 for queue in wish.queues)
    if quotas > accelerators:
        part = f"each counts as {accelerators / quotas:.0%} of itself, and queues without one own nothing"
        yield f"the quotas add up to {quotas}, the cluster has {words.counted(accelerators, 'accelerator')}: {part}"
    unknown = {job.queue for job in trace} - {queue.name for queue in wish.queues} - {""}
    if wish.queues and unknown:
        yield f"not among the queues, so with weight 1 and no limit: {', '.join(sorted(unknown))}"


def _line(label: str, run: results.Result, width: int) -> str:
    if not run.finished:
        return f"{label:{width}}  no job finished{_left(run)}: is there room for a minimum?\n"
    hours = [seconds / 3600 for seconds in (run.mean, statistics.fmean(run.waits), run.p99_linear, run.makespan)]
    cells = (
        f"{len(run.finished)}",
        *(f"{value:.2f}" for value in hours),
        f"{run.changes:.2f}",
        f"{run.busy / 3600:.0f}",
        f"{run.busy / max(run.offered, 1):.0%}",
    )
    row = "".join(f"{cell:>{room}}" for cell, (_, room) in zip(cells, COLUMNS, strict=True))
    return f"{label:{width}}{row}{_left(run)}\n"


def _left(run: results.Result) -> str:
    names = sorted(one.job.name for one in run.unfinished)
    more = ", …" if len(names) > NAMED else ""
    return f"  {len(names)} not finished ({', '.join(names[:NAMED])}{more})" if names else ""
