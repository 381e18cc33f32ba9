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
WANTED = ("exponent", "requested", "accelerators", "priority", "queue", "namespace")
POLICIES = ("ours", "equal", "tiresias", "optimus")


class TraceError(ValueError):
    """A trace or a cluster that cannot be read, with the reason."""


def read(path: pathlib.Path) -> list[jobs.TraceJob]:
    """The jobs of a file.

    Raises:
        TraceError: it is not such a file; says in which line and column.
        OSError: it cannot be opened.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return _jobs(csv.DictReader(file), path)
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{path}: not a CSV file in UTF-8: {error}") from error


def _jobs(rows: csv.DictReader[str], path: pathlib.Path) -> list[jobs.TraceJob]:
    columns = rows.fieldnames or NEEDED
    if missing := [name for name in NEEDED if name not in columns]:
        raise TraceError(f"{path}: columns are missing: {', '.join(missing)}")
    if unknown := [str(name) for name in columns if name not in NEEDED + WANTED]:
        raise TraceError(f"{path}: unknown columns: {', '.join(unknown)}; there are {', '.join(NEEDED + WANTED)}")
    listed: dict[str, jobs.TraceJob] = {}
    for row in rows:
        job = _job(row, f"{path}, line {rows.line_num}")
        if job.name in listed:
            raise TraceError(f"{path}, line {rows.line_num}: a second job named {job.name!r}")
        listed[job.name] = job
    if not listed:
        raise TraceError(f"{path}: there is no job in it")
    return list(listed.values())


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


def _job(row: Mapping[str, str | None], place: str) -> jobs.TraceJob:
    def number(column: str, absent: float | None = None, *, least: float = 0, most: float = math.inf) -> float:
        text = row.get(column) or ""
        try:
            found = float(text) if text or absent is None else absent
        except ValueError as error:
            raise TraceError(f"{place}: {column} is {text!r}, which is no number") from error
        if not (math.isfinite(found) and least <= found <= most):
            raise TraceError(f"{place}: {column} is {text}, and must be from {least:g} to {most:g}")
        return found

    def count(column: str, absent: float | None = None, *, least: float = 1, most: float = math.inf) -> int:
        found = number(column, absent, least=least, most=most)
        if found % 1:
            raise TraceError(f"{place}: {column} is {found:g}, which is no whole number")
        return int(found)

    high = count("max_nodes", most=slots.MAX_SLOTS)
    low = count("min_nodes", most=high)
    return jobs.TraceJob(
        name=row["name"] or "",
        submitted=number("submitted_s"),
        work=3600 * number("hours_alone"),
        profile=_profile(high, number("exponent", 0.8, most=1)),
        minimum=low,
        maximum=high,
        requested=min(max(count("requested", high), low), high),
        accelerators=count("accelerators", 1),
        priority=count("priority", 0, least=-(2**31), most=2**31),
        queue=row.get("queue") or "",
        namespace=row.get("namespace") or "default",
    )


def _profile(high: int, exponent: float) -> jobs.Profile:
    sizes = range(1, high + 1)
    return jobs.Profile({n: (n**exponent,) for n in sizes}, dict.fromkeys(sizes, 1))


def _counts(text: str) -> tuple[int, int]:
    count, _, each = text.partition("x")
    if not (count.isdecimal() and each.isdecimal()):
        raise TraceError(f"a cluster is described as COUNTxACCELERATORS, such as 16x4, not {text!r}")
    return int(count), int(each)
