"""What is known of one job's throughput, from its progress reports alone. A value: each report gives the next one.

* What has been measured counts as measured; the fitted model speaks for the other sizes.
* Sizes are offered up to twice the largest one tried: exploration is careful, and each step of it is paid by a resize.
* The curve is computed anew when the evidence at a size has doubled, not with each report: noise moves no nodes.
* Reports that cannot be are dropped. One job's nonsense harms that job alone (see `curves.py`).
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import curves, fitting

if TYPE_CHECKING:
    from collections.abc import Iterable

EXPLORED = 2
"""Times the largest size tried that is offered (Pollux)."""
MODEL_WEIGHT = 4.0
"""The model counts as much as so many reports at every size: one report that is 20 % low must not end a size."""
HOPE = 0.3
"""A size beyond those tried is believed to give at least (n / tried)^0.3, as long as the largest tried is the
fastest: a wrong no lasts for the job's life, a wrong yes for one report."""
OUTLIER = 3.0
"""A report further off the mean of its size than this factor counts as this factor: a stalled file system, a clock."""
MEMORY = 64.0
"""Reports that a mean remembers: a job whose speed changes is believed after about an hour of minutes' reports."""

Seen = tuple[int, bool]
"""Nodes, and whether on more than one cluster node."""


@dataclasses.dataclass(frozen=True)
class Knowledge:
    """Start with `Knowledge(first)`, `first` being the largest size that may be tried without any measurement."""

    first: int = 1
    points: tuple[fitting.Point, ...] = ()
    tried: int = 0
    """The largest size it has run at, reports or not."""
    curve: curves.Curve = dataclasses.field(default_factory=lambda: curves.unmeasured(1))
    fitted: tuple[tuple[Seen, int], ...] = ()
    """The evidence, in doublings, that `curve` rests on."""

    @property
    def sizes(self) -> frozenset[int]:
        """Those whose reports count as much as the model."""
        return frozenset(point.nodes for point in self.points if point.weight >= MODEL_WEIGHT)

    @classmethod
    def new(cls, first: int) -> Knowledge:
        """Nothing known yet."""
        return cls(first=first, curve=curves.unmeasured(max(first, 1)))

    def run(self, nodes: int, host: int, maximum: int) -> Knowledge:
        """It runs at so many nodes now, whether it reports or not."""
        if nodes <= self.tried:
            return self
        return _renewed(dataclasses.replace(self, tried=nodes), host, maximum)

    def report(self, seen: Seen, rate: float, host: int, maximum: int) -> Knowledge:
        """One progress report: units of work per second at so many nodes.

        `host`: pods of the job that one cluster node can hold; `maximum`: the job's own.
        """
        nodes, across = seen
        if not believable(nodes, rate, maximum):
            return self
        old = next((p for p in self.points if (p.nodes, p.across) == seen), None)
        point = fitting.Point(nodes, across, rate) if old is None else _merged(old, rate)
        points = (*(p for p in self.points if p is not old), point)
        after = dataclasses.replace(self, points=points, tried=max(self.tried, nodes))
        return after if _evidence(after) == self.fitted else _renewed(after, host, maximum)


def believable(nodes: int, rate: float, maximum: int) -> bool:
    """Whether a report can be at all."""
    return curves.SMALLEST_RATE <= rate <= curves.LARGEST_RATE and 0 < nodes <= maximum


def recalled(fresh: Knowledge, points: tuple[fitting.Point, ...], tried: int, host: int, maximum: int) -> Knowledge:
    """Knowledge from evidence that was kept elsewhere."""
    most = min(max((tried, *(point.nodes for point in points))), max(maximum, 1))
    return _renewed(dataclasses.replace(fresh, points=points, tried=most), host, maximum)


def _evidence(known: Knowledge) -> tuple[tuple[Seen, int], ...]:
    return tuple(sorted(((p.nodes, p.across), int(math.log2(p.weight))) for p in known.points))


def _renewed(known: Knowledge, host: int, maximum: int) -> Knowledge:
    reach = min(max(known.first, EXPLORED * known.tried), max(maximum, 1))
    curve = curves.unmeasured(reach) if not known.points else _curve(known.points, reach, host)
    return dataclasses.replace(known, curve=curve, fitted=_evidence(known))


def _merged(old: fitting.Point, rate: float) -> fitting.Point:
    """A mean in logarithms over the last reports; the first two are taken as they are."""
    log = math.log(rate / old.rate)
    if old.weight >= 2:  # noqa: PLR2004 -- before, nothing says which of two is the outlier
        log = min(max(log, -math.log(OUTLIER)), math.log(OUTLIER))
    weight = min(old.weight + 1, MEMORY)
    return dataclasses.replace(old, rate=old.rate * math.exp(log / weight), weight=weight)


def _curve(points: Iterable[fitting.Point], reach: int, host: int) -> curves.Curve:
    listed = list(points)
    model = fitting.fit(listed)
    packed, loose = [], []
    for nodes in range(1, reach + 1):
        packed.append(_blend(model, listed, nodes, across=nodes > host))
        loose.append(_blend(model, listed, nodes, across=nodes > 1))
    tried = max(point.nodes for point in listed)
    return curves.Curve(_hopeful(packed, tried), _hopeful(loose, tried))


def _hopeful(rates: list[float], tried: int) -> tuple[float, ...]:
    """Not for one whose largest size has disappointed."""
    last = rates[min(tried, len(rates)) - 1]
    if last < max(rates[:tried]):
        return tuple(rates)
    return tuple(max(rate, last * (n / tried) ** HOPE) if n > tried else rate for n, rate in enumerate(rates, 1))


def _blend(model: fitting.Model, points: list[fitting.Point], nodes: int, *, across: bool) -> float:
    """The model's logarithm and the measured one, weighted by evidence."""
    told = math.log(model.rate(nodes, across=across))
    seen = next((p for p in points if p.nodes == nodes and p.across == across), None)
    if seen is not None:
        told += seen.weight / (seen.weight + MODEL_WEIGHT) * (math.log(seen.rate) - told)
    return math.exp(told)
