"""Phases 4 and 5: what the minimums leave. Sizes set by people first, the rest step by step to whom each node helps
most.

Maximises the sum over jobs of weight x log(throughput): a doubling counts the same for everybody, so a job that scales
badly stops early and leaves its nodes to one that scales well. Two things make it more than that:

* weights fall with age. Lengths are not known, but training jobs' are spread so widely that what has run long will
  run long still: speeding up a young job ends it soon and frees its nodes.
* staying is worth something. The present size gets a bonus of resize cost / horizon, so a change has to earn its cost
  back within the horizon, by measured cost and measured speed: that is the hysteresis. A size on trial gets more, until
  it has been measured.
"""

from __future__ import annotations

import bisect
import functools
import heapq
import math
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import curves, lending

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from elasticjob_operator.autoscaler import claims, drafts, room, settings

MATURE = 1.5
"""Times the jobs' mean age: how fast weights fall. 1 and 1.5 differ by 0.4 % in mean completion time on Pollux's traces
and by 0.2 % on ElasticFlow's, the other way round.
"""


def weigh(ordered: list[drafts.Draft], rules: settings.Settings) -> None:
    """1 / (age + 1.5 x mean age): the cluster's own time scale, whether its jobs take minutes or weeks."""
    ages = [draft.job.age for draft in ordered]
    scale = max(MATURE * sum(ages) / len(ages) if ages else 0.0, rules.youngest, 1.0)
    for draft, age in zip(ordered, ages, strict=True):
        draft.weight = 1 / (age + scale)


def pin(ordered: list[drafts.Draft], space: room.Room, held: claims.Claims, *, borrowing: bool) -> None:
    """Sizes set by people, as far as there is room, in the jobs' order."""
    for draft in ordered:
        if draft.nodes and draft.job.pinned is not None:
            most = draft.nodes + _open(draft, space=space, held=held, borrowing=borrowing)
            size = max((size for size in draft.sizes if size <= most), default=draft.nodes)
            _give(draft, size, space=space, held=held)


def grant(
    ordered: list[drafts.Draft], space: room.Room, held: claims.Claims, rules: settings.Settings, *, borrowing: bool
) -> None:
    """Within what the queues deserve, or borrowed: higher priorities before lower ones."""
    growing = [draft for draft in ordered if draft.nodes and draft.job.pinned is None and not draft.job.held]
    for priority in sorted({draft.job.priority for draft in growing}, reverse=True):
        reach = functools.partial(_open, space=space, held=held, borrowing=borrowing)
        level = [draft for draft in growing if draft.job.priority == priority and reach(draft)]
        points = [worth(draft, rules, space) for draft in level]
        pools = [space.only(draft) if held.unlimited else None for draft in level]
        _share(level, points, reach, functools.partial(_give, space=space, held=held), pools)


def worth(draft: drafts.Draft, rules: settings.Settings, space: room.Room) -> Sequence[curves.Point]:
    """The hull of its sizes from the minimum up, the present one raised by its bonus, volatile ones lowered by their
    risk.
    """
    curve, now = draft.curve, draft.job.promised or draft.job.granted
    top = draft.sizes[-1] if draft.cap is None else draft.cap
    bonus = draft.cost(rules) + (lending.STAY if lending.on_trial(draft.job) else 0.0)
    points = _offered(draft, top)
    if points[0][0] < draft.nodes:
        points = [(draft.nodes, curve.log(draft.nodes)), *(point for point in points if point[0] > draft.nodes)]
    if not math.isinf(space.lifetime):
        points = curves.hull((size, log - risk(draft, size, space)) for size, log in points)
    if draft.nodes <= now and bonus and now in draft.sizes:
        return _raised(points, (now, curve.log(now) + bonus - risk(draft, now, space)))
    return points


def _raised(points: Sequence[curves.Point], top: curves.Point) -> list[curves.Point]:
    """The hull again, with one point lifted: its neighbours that it overshadows fall out."""
    at = bisect.bisect_left(points, (top[0],))
    below, above = list(points[:at]), at
    while len(below) > 1 and curves.slope(below[-2], below[-1]) <= curves.slope(below[-2], top):
        below.pop()
    while above < len(points) and points[above][0] == top[0]:
        above += 1
    while above + 1 < len(points) and curves.slope(top, points[above]) <= curves.slope(top, points[above + 1]):
        above += 1
    return [*below, top, *points[above:]]


def risk(draft: drafts.Draft, size: int, space: room.Room) -> float:
    """What the loss of volatile cluster nodes will cost of the throughput: the more it is on, the oftener all its
    pods stop.

    All beyond the minimum counts as volatile here: where each node will be is decided step by step.
    """
    hosts = space.volatile_hosts(draft.kind, draft.job.sized)
    if not hosts or math.isinf(space.lifetime):
        return 0.0
    exposed = math.ceil(max(size - (draft.nodes - draft.loose), 0) / hosts)
    lost = draft.job.resize_cost + draft.job.unsaved
    return math.log1p(exposed * lost / max(space.lifetime, 1.0))


def _offered(draft: drafts.Draft, top: int) -> Sequence[curves.Point]:
    """The curve's own ladder, cut at the largest size; computed anew where only some sizes are allowed."""
    if not draft.job.allowed:
        ladder = draft.curve.ladder(draft.minimum)
        if ladder[-1][0] <= top:
            return ladder
        return curves.hull((size, draft.curve.log(size)) for size in _sizes(draft, top))
    return curves.hull((size, draft.curve.log(size)) for size in _sizes(draft, top))


def _sizes(draft: drafts.Draft, top: int) -> list[int]:
    """Up to the curve's reach, each faster than all below; the minimum always."""
    best, out = draft.curve.log(draft.minimum), [draft.minimum]
    for size in draft.sizes[1:]:
        if size <= min(top, draft.curve.reach) and draft.curve.log(size) > best + curves.LEAST:
            best = draft.curve.log(size)
            out.append(size)
    return out


def _share(
    level: list[drafts.Draft],
    points: list[Sequence[curves.Point]],
    reach: Callable[[drafts.Draft], int],
    give: Callable[[drafts.Draft, int], None],
    pools: list[room.Pool | None],
) -> None:
    """The best next step of all jobs, again and again; one that does not fit whole is tried smaller.

    Thousands of steps make one decision, so those that one subtraction counts (`Room.only`) are counted here.
    """
    heap: list[tuple[float, int, Sequence[curves.Point], int]] = []
    scales = [draft.weight / draft.job.sized for draft in level]

    def push(rank: int, ahead: Sequence[curves.Point], at: int) -> None:
        if at + 1 < len(ahead) and (gain := curves.slope(ahead[at], ahead[at + 1])) > 0:
            heapq.heappush(heap, (-gain * scales[rank], rank, ahead, at + 1))

    for rank, ahead in enumerate(points):
        push(rank, ahead, 0)
    while heap:
        _, rank, ahead, at = heapq.heappop(heap)
        draft, pool, size = level[rank], pools[rank], ahead[at][0]
        most = draft.nodes + (reach(draft) if pool is None else pool.free // draft.job.accelerators)
        if size <= most:
            if pool is None:
                give(draft, size)
            else:
                pool.free -= (size - draft.nodes) * draft.job.accelerators
                draft.nodes = size
            push(rank, ahead, at)
        elif most > draft.nodes:
            push(rank, curves.hull((n, draft.curve.log(n)) for n in _within(draft, most)), 0)


def _within(draft: drafts.Draft, most: int) -> list[int]:
    """Sizes from what it has in this draft up to what still fits."""
    return [size for size in _sizes(draft, most) if size >= draft.nodes] or [draft.nodes]


def _open(draft: drafts.Draft, *, space: room.Room, held: claims.Claims, borrowing: bool, volatile: bool = True) -> int:
    free = space.pods(draft, draft.kind, volatile=False)
    if volatile and space.any_volatile:
        free += space.pods(draft, draft.kind, volatile=True)
    return int(min(free, held.pods(draft.job, borrowing=borrowing)))


def _give(draft: drafts.Draft, size: int, *, space: room.Room, held: claims.Claims) -> None:
    """Stable cluster nodes first: the minimums have theirs already, and the first steps are the ones that help most."""
    more = size - draft.nodes
    firm = min(more, space.pods(draft, draft.kind, volatile=False)) if space.any_volatile else more
    space.take(draft, firm, volatile=False)
    if firm < more:
        space.take(draft, more - firm, volatile=True)
    held.take(draft.job, more)
    draft.nodes, draft.loose = size, draft.loose + more - firm
