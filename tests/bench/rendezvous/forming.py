"""Figures 1, 2, 3 and 5: how long a crowd takes to form, and what it asks of the server then and afterwards."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from bench.rendezvous import counting, crowd
from bench.rendezvous.figures import Figure

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from bench.rendezvous.backends import Backend, Job

LIMIT = 45.0
"""Seconds after which a round is given up."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One crowd of one backend. ``again``: a second round follows, as after a worker's failure."""

    backend: Backend
    nodes: int
    low: int = 0
    high: int = 0
    steady: float = 0.0
    """Seconds over which the requests of a group that trains are counted; 0: not at all."""
    again: bool = False
    limit: float = LIMIT
    spread: float = 0.0
    """Seconds over which the nodes begin, as pods do that are created one after the other."""


def run(case: Case, log: pathlib.Path) -> Iterator[Figure]:
    """The case's figures."""
    low, high = case.low or case.nodes, case.high or case.nodes
    job = case.backend.prepare(case.nodes, low=low, high=high)

    def figure(name: str, value: float | None, unit: str, note: str = "") -> Figure:
        return Figure(name, case.backend.name, case.nodes, value, unit, min=low, note=note)

    before = job.counted()
    with crowd.gathered(case.nodes, job.join, log) as nodes:
        formed = nodes.form(case.limit, spread=case.spread)
        yield figure(
            "form" if high == case.nodes else "form_below_max",
            None if formed.problem else formed.seconds,
            "s",
            formed.problem,
        )
        if formed.problem:
            return
        cost = _since(before, job, nodes)
        yield figure("requests_per_node", cost.requests / case.nodes, "1")
        yield figure("bytes_per_node", cost.bytes / case.nodes, "B")
        if case.steady:
            rested, began = job.counted() or nodes.counted(), time.monotonic()
            nodes.idle(case.steady)
            asked = _since(rested, job, nodes).requests
            seconds = time.monotonic() - began  # to count takes time as well
            yield figure("steady_requests_per_node_s", asked / case.nodes / seconds, "1/s")
        if case.again:
            rested = job.counted() or nodes.counted()
            formed = nodes.form(case.limit)
            yield figure("form_again", None if formed.problem else formed.seconds, "s", formed.problem)
            cost = _since(rested, job, nodes)
            yield figure("requests_per_node_again", cost.requests / case.nodes, "1")
            yield figure("bytes_per_node_again", cost.bytes / case.nodes, "B")


def _since(before: counting.Count | None, job: Job, nodes: crowd.Crowd) -> counting.Count:
    return (job.counted() or nodes.counted()) - (before or counting.Count())
