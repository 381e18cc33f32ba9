"""Pollux's throughput function, fitted to what a job has reported: tells the speed of sizes that were never tried.

With a fixed global batch, n nodes and their pods on one or on more cluster nodes, an iteration takes

    T(n) = (T_grad^g + T_sync^g)^(1/g),   T_grad = a + b/n,   T_sync = 0 (n = 1), r + s (n - 2) within, R + S (n - 2)
    across

(Pollux, OSDI'21, §3.2; b/n because the global batch is shared out). g says how far computing and synchronising
overlap. Any unit of time does. Few points and seven numbers: a weak pull towards the start values decides what the
points leave open.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LEAST = 1e-4
"""Smallest part of the one-node time that a term can be; below it no report can tell."""
ACROSS = 1.1
"""Unseen synchronising across cluster nodes is taken as 1.1 times that within one (Pollux)."""
PULL = 2e-3
"""Weight of the start values: an e-fold off them costs as much as being 4 % off at a well measured size."""
OWN_ERROR = 4.0
"""The function is itself off by about half of one report's noise (5 % and 10 %): more than so many reports at one size
hardly make it righter, and must not outweigh another size's."""
MOST_OVERLAP = 10.0
"""Pollux's bound of g."""
FIRST_STEP, LAST_STEP = 1.0, 0.02
"""Search steps in logarithms: from an e-fold down to 2 %, finer than reports are."""

MOST_PASSES = 60
"""Passes over all numbers; a narrow valley would be followed in ever smaller steps, for nothing one could measure."""
WORTH_A_PASS = 0.02
"""A pass that lowers the error by less halves the step."""


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """What was seen at one size: mean speed, and how many reports stand behind it."""

    nodes: int
    across: bool
    """Whether the pods were on more than one cluster node."""
    rate: float
    weight: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """The seven numbers, in seconds per unit of work."""

    fixed: float
    shared: float
    within: float
    within_each: float
    across: float
    across_each: float
    overlap: float

    def rate(self, nodes: int, *, across: bool) -> float:
        """Units of work per second."""
        grad = self.fixed + self.shared / nodes
        if nodes < 2:  # noqa: PLR2004 -- one node synchronises with nobody
            return 1 / grad
        first, each = (self.across, self.across_each) if across else (self.within, self.within_each)
        sync = first + each * (nodes - 2)
        longer, shorter = max(grad, sync), min(grad, sync)
        power: float = (1 + (shorter / longer) ** self.overlap) ** (1 / self.overlap)
        return 1 / (longer * power)


def fit(points: Sequence[Point]) -> Model:
    """The model with the least squared logarithmic error. `points` holds at least one, with positive finite rates."""
    smallest = min(points, key=lambda point: point.nodes)
    unit = smallest.nodes / smallest.rate
    seen_within = any(not point.across and point.nodes > 1 for point in points)
    seen_across = any(point.across for point in points)
    start = [math.log(0.02), 0.0, math.log(0.02), math.log(0.002), 0.0, 0.0, math.log(2.0)]

    def model(x: Sequence[float]) -> Model:
        fixed, shared, within, within_each, across, across_each = (unit * max(math.exp(v), LEAST) for v in x[:6])
        overlap = math.exp(min(max(x[6], 0.0), math.log(MOST_OVERLAP)))
        if not seen_across:
            across, across_each = ACROSS * within, ACROSS * within_each
        elif not seen_within:
            within, within_each = min(within, across / ACROSS), min(within_each, across_each / ACROSS)
        return Model(fixed, shared, within, within_each, across, across_each, overlap)

    trusts = [point.weight / (point.weight + OWN_ERROR) for point in points]
    start[4:6] = [start[2] + math.log(ACROSS), start[3] + math.log(ACROSS)]

    def error(x: Sequence[float]) -> float:
        made = model(x)
        off = sum(
            trust * math.log(made.rate(point.nodes, across=point.across) / point.rate) ** 2
            for trust, point in zip(trusts, points, strict=True)
        )
        return off + PULL * sum((a - b) ** 2 for a, b in zip(x, start, strict=True))

    return model(_search(error, start))


def _search(error: Callable[[Sequence[float]], float], start: Sequence[float]) -> list[float]:
    """Coordinate search with shrinking steps: no derivatives, no dependency, and it cannot diverge."""
    x, least = list(start), error(start)
    step = FIRST_STEP
    for _ in range(MOST_PASSES):
        before = least
        for i in range(len(x)):
            for move in (step, -step):
                x[i] += move
                if (found := error(x)) < least:
                    least = found
                    break
                x[i] -= move
        if least > before * (1 - WORTH_A_PASS):
            step /= 2
        if step < LAST_STEP:
            break
    return x
