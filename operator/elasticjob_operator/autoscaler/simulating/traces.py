"""Trace files of people: jobs as CSV. What cannot be read is told with its line and column, never guessed.

Columns: `name`, `submitted_s`, `min_nodes`, `max_nodes`, `hours_alone` (on one node), and if wanted `exponent` (n
nodes are n^exponent times as fast; 0.8), `requested` (for rigid policies; max_nodes), `accelerators` of a node (1),
`type` of accelerator that it needs (any), `priority` (0), `queue`, `namespace` (default).
"""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler.simulating import inputs, jobs
from elasticjob_rendezvous.round import slots

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Mapping

NEEDED = ("name", "submitted_s", "min_nodes", "max_nodes", "hours_alone")
WANTED = ("exponent", "requested", "accelerators", "type", "priority", "queue", "namespace")


def read(path: pathlib.Path) -> list[jobs.TraceJob]:
    """The jobs of a file.

    Raises:
        inputs.InputError: it is not such a file; says in which line and column.
        OSError: it cannot be opened.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return _jobs(csv.DictReader(file), path)
    except (UnicodeDecodeError, csv.Error) as error:
        raise inputs.InputError(f"{path}: not a CSV file in UTF-8: {error}") from error


def _jobs(rows: csv.DictReader[str], path: pathlib.Path) -> list[jobs.TraceJob]:
    columns = rows.fieldnames or NEEDED
    if missing := [name for name in NEEDED if name not in columns]:
        raise inputs.InputError(f"{path}: columns are missing: {', '.join(missing)}")
    if unknown := [str(name) for name in columns if name not in NEEDED + WANTED]:
        raise inputs.InputError(
            f"{path}: unknown columns: {', '.join(unknown)}; there are {', '.join(NEEDED + WANTED)}"
        )
    listed: dict[str, jobs.TraceJob] = {}
    for row in rows:
        job = _job(row, f"{path}, line {rows.line_num}")
        if job.name in listed:
            raise inputs.InputError(f"{path}, line {rows.line_num}: a second job named {job.name!r}")
        listed[job.name] = job
    if not listed:
        raise inputs.InputError(f"{path}: there is no job in it")
    return list(listed.values())


def _job(row: Mapping[str, str | None], place: str) -> jobs.TraceJob:
    def number(column: str, absent: float | None = None, *, least: float = 0, most: float = math.inf) -> float:
        text = row.get(column) or ""
        try:
            found = float(text) if text or absent is None else absent
        except ValueError as error:
            raise inputs.InputError(f"{place}: {column} is {text!r}, which is no number") from error
        if not (math.isfinite(found) and least <= found <= most):
            raise inputs.InputError(f"{place}: {column} is {text}, and must be from {least:g} to {most:g}")
        return found

    def count(column: str, absent: float | None = None, *, least: float = 1, most: float = math.inf) -> int:
        found = number(column, absent, least=least, most=most)
        if found % 1:
            raise inputs.InputError(f"{place}: {column} is {found:g}, which is no whole number")
        return int(found)

    name = row["name"] or ""
    if not name or None in row:
        raise inputs.InputError(f"{place}: {'there are more values than columns' if name else 'name is empty'}")
    high = count("max_nodes", most=slots.MAX_SLOTS)
    low = count("min_nodes", most=high)
    return jobs.TraceJob(
        name=name,
        submitted=number("submitted_s"),
        work=3600 * number("hours_alone"),
        profile=_profile(high, number("exponent", 0.8, most=1)),
        minimum=low,
        maximum=high,
        requested=min(max(count("requested", high), low), high),
        accelerators=count("accelerators", 1),
        kind=row.get("type") or "",
        priority=count("priority", 0, least=-(2**31), most=2**31),
        queue=row.get("queue") or "",
        namespace=row.get("namespace") or "default",
    )


def _profile(high: int, exponent: float) -> jobs.Profile:
    sizes = range(1, high + 1)
    return jobs.Profile({n: (n**exponent,) for n in sizes}, dict.fromkeys(sizes, 1))
