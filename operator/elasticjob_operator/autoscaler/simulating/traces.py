"""Trace files of people: jobs as CSV, a cluster as `16x4`. What cannot be read is told with its line, never guessed.

Columns: `name`, `submitted_s`, `min_nodes`, `max_nodes`, `hours_alone` (on one node), and if wanted `exponent` (n
nodes are n^exponent times as fast; 0.8), `requested` (for rigid policies; max_nodes), `accelerators` of a node (1),
`priority` (0), `queue`, `namespace`.
"""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import snapshot
from elasticjob_operator.autoscaler.simulating import jobs, policies, replaying, results
from elasticjob_rendezvous.round import slots

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Mapping

NEEDED = ("name", "submitted_s", "min_nodes", "max_nodes", "hours_alone")
POLICIES = ("ours", "equal", "tiresias", "optimus")


class TraceError(ValueError):
    """A trace or a cluster that cannot be read, with the reason."""


def read(path: pathlib.Path) -> list[jobs.TraceJob]:
    """The jobs of a file."""
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        if missing := [name for name in NEEDED if name not in (rows.fieldnames or NEEDED)]:
            raise TraceError(f"{path}: columns are missing: {', '.join(missing)}")
        listed = [_job(row, f"{path}, line {number}") for number, row in enumerate(rows, 2)]
    if not listed:
        raise TraceError(f"{path}: there is no job in it")
    return listed


def cluster(stable: str, spot: str = "") -> list[replaying.Event]:
    """`16x4`: 16 cluster nodes with 4 accelerators each; `spot` the same for those that may vanish."""
    listed = []
    for text, volatile in ((stable, False), (spot, True)):
        count, each = _counts(text) if text else (0, 0)
        prefix = "spot" if volatile else "node"
        listed += [snapshot.ClusterNode(f"{prefix}-{i:04}", each, volatile=volatile) for i in range(count)]
    return [replaying.Event(0.0, tuple(listed))]


def run(
    name: str,
    trace: list[jobs.TraceJob],
    events: list[replaying.Event],
    options: replaying.Options,
    knowledge: replaying.Knowledge | None = None,
) -> results.Result:
    """One trace under one policy, by the policy's name."""
    if name != "ours" and any(job.accelerators != 1 for job in trace):
        raise TraceError(f"{name}: knows only nodes of one accelerator")
    oracle: dict[str, jobs.Running] = {}
    known: Mapping[str, Callable[[], replaying.Policy]] = {
        "ours": policies.ours,
        "equal": lambda: policies.equal,
        "tiresias": lambda: policies.tiresias({job.name: job.requested for job in trace}),
        "optimus": lambda: policies.optimus(oracle),
    }
    replay = replaying.Replay(trace, events, known[name](), knowledge, options)
    replay.share(oracle)
    return replay.run()


def _job(row: Mapping[str, str], place: str) -> jobs.TraceJob:
    try:
        low, high = int(row["min_nodes"]), int(row["max_nodes"])
        numbers = [float(row["submitted_s"]), float(row["hours_alone"]), float(row.get("exponent") or 0.8)]
        requested = int(row.get("requested") or high)
        accelerators, priority = int(row.get("accelerators") or 1), int(row.get("priority") or 0)
    except (TypeError, ValueError) as error:
        raise TraceError(f"{place}: {error}") from error
    if not all(math.isfinite(n) and n >= 0 for n in numbers) or not 1 <= low <= high or accelerators < 1:
        raise TraceError(f"{place}: negative, not finite, or a minimum outside 1 to max_nodes")
    return jobs.TraceJob(
        name=row["name"],
        submitted=numbers[0],
        work=3600 * numbers[1],
        profile=_profile(high, numbers[2]),
        minimum=low,
        maximum=high,
        requested=min(max(requested, low), high),
        accelerators=accelerators,
        priority=priority,
        queue=row.get("queue") or "",
        namespace=row.get("namespace") or "default",
    )


def _profile(high: int, exponent: float) -> jobs.Profile:
    sizes = range(1, min(high, slots.MAX_SLOTS) + 1)
    return jobs.Profile({n: (n**exponent,) for n in sizes}, dict.fromkeys(sizes, 1))


def _counts(text: str) -> tuple[int, int]:
    count, _, each = text.partition("x")
    if not (count.isdecimal() and each.isdecimal()):
        raise TraceError(f"a cluster is described as COUNTxACCELERATORS, such as 16x4, not {text!r}")
    return int(count), int(each)
