"""Phases 4 and 5: what the minimums leave. Sizes set by people first, the rest step by step to whom each node helps
most.

Maximises the sum over jobs of weight x log(throughput): a doubling counts the same for everybody, so a job that scales
badly stops early and leaves its nodes to one that scales well. Two things make it more than that:

* weights fall with age. Lengths are not known, but training jobs' are spread so widely that what has run long will
  run long still: speeding up a young job ends it soon and frees its nodes.
* staying is worth something. The present size gets a bonus of resize cost / horizon, so a change has to earn its cost
  back within the horizon, by measured cost and measured speed: that is the hysteresis, and nothing else is.
"""

from __future__ import annotations

import heapq
import itertools
import math
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import curves, nominating

if TYPE_CHECKING:
    from elasticjob_operator.autoscaler import claims, drafts, room, settings

Point = tuple[int, float]
"""A size, and the logarithm of throughput that it is worth."""
LEAST = math.log(curves.WORTHWHILE)


def weigh(ordered: list[drafts.Draft], rules: settings.Settings) -> None:
    """1 / (age + mean age): the cluster's own time scale, whether its jobs take minutes or weeks."""
    ages = [nominating.sane(draft.job.age) for draft in ordered]
    scale = max(sum(ages) / len(ages) if ages else 0.0, rules.youngest, 1.0)
    for draft, age in zip(ordered, ages, strict=True):
        draft.weight = 1 / (age + scale)


def pin(ordered: list[drafts.Draft], space: room.Room, held: claims.Claims) -> None:
    """Sizes set by people, as far as there is room, in the jobs' order."""
    for draft in ordered:
        if draft.nodes and draft.job.pinned is not None:
            most = draft.nodes + _open(draft, space, held, borrowing=True)
            size = max((size for size in draft.sizes if size <= most), default=draft.nodes)
            _give(draft, size, space, held)


def grant(ordered: list[drafts.Draft], space: room.Room, held: claims.Claims, rules: settings.Settings) -> None:
    """What queues deserve before what they borrow; in each, higher priorities before lower ones."""
    growing = [draft for draft in ordered if draft.nodes and draft.job.pinned is None and not draft.job.held]
    points = {draft.job.name: worth(draft, rules) for draft in growing}
    for borrowing in (False, True):
        for priority in sorted({draft.job.priority for draft in growing}, reverse=True):
            level = [draft for draft in growing if draft.job.priority == priority]
            _share(level, points, space, held, borrowing=borrowing)


def worth(draft: drafts.Draft, rules: settings.Settings) -> list[Point]:
    """Its sizes from the minimum up that are faster than all smaller ones, and the present one with its bonus."""
    curve, now = draft.curve, draft.job.granted
    top = min(curve.reach, draft.sizes[-1] if draft.cap is None else draft.cap)
    best = curve.log(draft.minimum)
    bonus = nominating.sane(draft.job.resize_cost) / max(rules.horizon, 1.0)
    points = [(draft.minimum, best + (bonus if draft.minimum == now else 0.0))]
    for size in draft.sizes[1:]:
        if size > top and size != now:
            continue
        log = curve.log(size)
        if log > best + LEAST or size == now:
            points.append((size, log + (bonus if size == now else 0.0)))
            best = max(best, log)
    return points


def steps(points: list[Point]) -> list[tuple[int, float]]:
    """The upper hull from the first point on: (size, gain per node), gains falling and above zero.

    Hull steps jump over sizes that are no better than their neighbours: 8 nodes across may lose to 4 together and
    still 12 be worth having.
    """
    hull: list[Point] = []
    for size, value in points:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-2], (size, value)):
            hull.pop()
        hull.append((size, value))
    found = [(b[0], _slope(a, b)) for a, b in itertools.pairwise(hull)]
    return [step for step in found if step[1] > 0]


def _slope(low: Point, high: Point) -> float:
    return (high[1] - low[1]) / (high[0] - low[0])


def _share(
    level: list[drafts.Draft], points: dict[str, list[Point]], space: room.Room, held: claims.Claims, *, borrowing: bool
) -> None:
    """The best next step of all jobs, again and again; one that does not fit whole is tried smaller."""
    heap: list[tuple[float, int, list[tuple[int, float]]]] = []

    def push(rank: int, ahead: list[tuple[int, float]]) -> None:
        if ahead:
            draft = level[rank]
            heapq.heappush(heap, (-ahead[0][1] * draft.weight / draft.job.sized, rank, ahead))

    for rank, draft in enumerate(level):
        push(rank, steps([point for point in points[draft.job.name] if point[0] >= draft.nodes]))
    while heap:
        _, rank, ahead = heapq.heappop(heap)
        draft = level[rank]
        most = draft.nodes + _open(draft, space, held, borrowing=borrowing)
        if ahead[0][0] <= most:
            _give(draft, ahead[0][0], space, held)
            push(rank, ahead[1:])
        elif most > draft.nodes:
            push(rank, steps([point for point in points[draft.job.name] if draft.nodes <= point[0] <= most]))


def _open(draft: drafts.Draft, space: room.Room, held: claims.Claims, *, borrowing: bool) -> int:
    free = space.pods(draft, draft.kind, volatile=True) + space.pods(draft, draft.kind, volatile=False)
    return int(min(free, held.pods(draft.job, borrowing=borrowing)))


def _give(draft: drafts.Draft, size: int, space: room.Room, held: claims.Claims) -> None:
    """Volatile cluster nodes first: stable ones are kept for minimums to come."""
    more = size - draft.nodes
    loose = min(more, space.pods(draft, draft.kind, volatile=True))
    space.take(draft, loose, volatile=True)
    space.take(draft, more - loose, volatile=False)
    held.take(draft.job, more)
    draft.nodes = size
