"""A job's throughput by size, as the allocator uses it: cleaned of what cannot be, and told in logarithms.

Only ratios count: twice the speed is worth the same to a job of any unit (samples, steps, tokens). A curve is a value
that lives as long as its evidence, so what is derived from it is computed once. It knows nothing of how it was
measured.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

UNMEASURED_EXPONENT = 0.8
"""Speed of n nodes of a job that never reported is taken as n^0.8: +74 % by each doubling. Between the best and the
worst of Pollux's six models within one cluster node, so such a job is neither preferred nor starved."""
SUPERLINEAR = 1.25
"""A node is believed to be at most so much faster in a larger job than in the smallest measured one. Caches and
memory do give 1.05 (Pollux's BERT on 4 T4); what goes beyond is a broken report, and would draw the whole cluster."""
WORTHWHILE = 1.01
"""A larger size counts only if it is 1 % faster: less is below what reports can tell apart."""
SMALLEST_RATE, LARGEST_RATE = 1e-12, 1e12
"""Between one unit of progress in 30,000 years and 10^12 a second; other numbers are garbage."""
MOST_GAIN = 20.0
"""Logarithm: a gain beyond this is a broken report, and only has to be printable."""
LEAST = math.log(WORTHWHILE)
Point = tuple[int, float]
"""A size, and the logarithm of the throughput it is worth."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """Throughput at 1, 2, 3 … nodes, in any unit; 0, NaN or infinity where it is not known. No size beyond is offered.

    `scattered` is the same for pods on more cluster nodes than they need; empty where that makes no difference.
    """

    rates: tuple[float, ...]
    scattered: tuple[float, ...] = ()

    @functools.cached_property
    def logs(self) -> tuple[float, ...]:
        """Logarithm of the believed rate at 1, 2, 3 … nodes."""
        return tuple(math.log(rate) for rate in _believed(self.rates))

    @functools.cached_property
    def scattered_logs(self) -> tuple[float, ...]:
        """As `logs`, when the pods are scattered: never better than packed, else packing would look harmful."""
        if not self.scattered:
            return self.logs
        packed = [math.exp(log) for log in self.logs]
        loose = [b if _known(b) else a for a, b in zip(packed, self.scattered, strict=False)]
        return tuple(math.log(min(a, b)) for a, b in zip(packed, loose, strict=False)) + self.logs[len(loose) :]

    @functools.cached_property
    def _ladders(self) -> dict[int, tuple[Point, ...]]:
        return {}

    def ladder(self, first: int) -> tuple[Point, ...]:
        """The upper hull of the logarithms from size `first` on: sizes worth having, each step's gain per node below
        the last's.

        It jumps over sizes that are no better than their neighbours: 8 nodes across may lose to 4 together and still
        12 be worth having. Computed once for each minimum.
        """
        if first not in self._ladders:
            self._ladders[first] = tuple(_ladder([(first, self.log(first)), *enumerate(self.logs[first:], first + 1)]))
        return self._ladders[first]

    @property
    def reach(self) -> int:
        """The largest size it speaks of."""
        return len(self.rates)

    def log(self, nodes: int, *, scattered: bool = False) -> float:
        """Logarithm of the throughput at so many nodes; beyond its reach by the unmeasured jobs' rule."""
        if nodes < 1:
            return -math.inf
        logs = self.scattered_logs if scattered else self.logs
        if nodes <= len(logs):
            return logs[nodes - 1]
        last = len(logs)
        start = logs[-1] if logs else 0.0
        return start + UNMEASURED_EXPONENT * math.log(nodes / max(last, 1))


@functools.lru_cache(maxsize=256)
def unmeasured(reach: int) -> Curve:
    """The curve of a job that has not reported."""
    return Curve(tuple(float(n) ** UNMEASURED_EXPONENT for n in range(1, reach + 1)))


def hull(points: Iterable[Point]) -> list[Point]:
    """The upper hull of points with ascending sizes."""
    out: list[Point] = []
    for point in points:
        while len(out) > 1 and slope(out[-2], out[-1]) <= slope(out[-2], point):
            out.pop()
        out.append(point)
    return out


def slope(low: Point, high: Point) -> float:
    """Gain per node from one point to the other."""
    return (high[1] - low[1]) / (high[0] - low[0])


def _ladder(points: list[Point]) -> Iterable[Point]:
    """Only what is worth a change of its own, and never downwards."""
    kept = points[:1]
    for point in points[1:]:
        if point[1] > kept[-1][1] + LEAST:
            kept.append(point)
    return hull(kept)


def gain(before: float, after: float) -> float:
    """Relative gain of throughput between two logarithms: 0.31 for +31 %."""
    return math.exp(min(after - before, MOST_GAIN)) - 1


def _believed(rates: tuple[float, ...]) -> list[float]:
    """Fill what is not known so that it attracts nobody, and cap what cannot be."""
    first = next((n for n, rate in enumerate(rates, 1) if _known(rate)), 0)
    if not first:
        return [float(n) ** UNMEASURED_EXPONENT for n in range(1, len(rates) + 1)]
    each = rates[first - 1] / first
    out = [each * n for n in range(1, first)]
    for n, rate in enumerate(rates[first - 1 :], first):
        out.append(min(rate, SUPERLINEAR * each * n) if _known(rate) else out[-1])
    return out


def _known(rate: float) -> bool:
    return SMALLEST_RATE <= rate <= LARGEST_RATE
