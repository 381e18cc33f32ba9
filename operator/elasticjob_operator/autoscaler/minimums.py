"""Phases 2 and 3: the order of the jobs, and each job's minimum, whole or not at all (gang).

No surplus is given before every minimum that fits has its place: so no job waits while the sum of the minimums fits,
and a newcomer first takes what others had beyond theirs (shrink), then the place of the last in order (suspend).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import claims

if TYPE_CHECKING:
    from collections.abc import Iterable

    from elasticjob_operator.autoscaler import drafts, room, settings, snapshot


def order(jobs: Iterable[drafts.Draft], rules: settings.Settings) -> list[drafts.Draft]:
    """Held jobs, then by priority, then who has had fewer turns, then the older."""

    def rank(draft: drafts.Draft) -> tuple[bool, int, int, float, str]:
        job = draft.job
        return not job.held, -job.priority, turns(draft, rules), -job.age, job.name

    return sorted((draft for draft in jobs if draft.sizes), key=rank)


def turns(draft: drafts.Draft, rules: settings.Settings) -> int:
    """Doublings of the service it has had, in turns at its minimum; each turn of waiting takes one back.

    Equals take turns only while the minimums do not all fit. Doublings let short jobs finish first, as Tiresias does;
    the waiting takes care that a long one comes back (anti-starvation).
    """
    turn = max(rules.turn, 1.0)
    had = draft.job.served / (draft.job.sized * draft.minimum * turn)
    return max(0, int(math.log2(1 + had)) - int(draft.job.waited / turn))


def crowded(ordered: list[drafts.Draft], snap: snapshot.Snapshot) -> bool:
    """Whether the minimums do not all fit. Then what a queue deserves goes before what others borrow, surplus and all:
    500 jobs of one namespace must not press everybody else down to the minimum.
    """
    needed = sum(draft.minimum * draft.job.accelerators for draft in ordered)
    return needed > claims.capacity(snap)


def grant(
    ordered: list[drafts.Draft], space: room.Room, held: claims.Claims, rules: settings.Settings, *, borrowing: bool
) -> None:
    """Within what the queues deserve, or borrowed: in this order, which is also how what was lent is reclaimed."""
    for draft in ordered:
        if draft.nodes or draft.barred:
            continue
        if draft.job.held:
            _hold(draft, space, held)
        elif draft.minimum <= held.pods(draft.job, borrowing=borrowing):
            _start(draft, space, held, rules)


def _start(draft: drafts.Draft, space: room.Room, held: claims.Claims, rules: settings.Settings) -> None:
    for kind in draft.kinds:
        stable, volatile = space.pods(draft, kind, volatile=False), space.pods(draft, kind, volatile=True)
        loose = min(volatile, draft.minimum, space.fixed(draft, kind))
        if rules.volatile_minimum:
            loose = max(loose, min(volatile, draft.minimum - stable))
        if stable >= draft.minimum - loose:
            draft.kind, draft.nodes, draft.loose = kind, draft.minimum, loose
            space.take(draft, draft.minimum - loose, volatile=False)
            space.take(draft, loose, volatile=True)
            held.take(draft.job, draft.minimum)
            return


def _hold(draft: drafts.Draft, space: room.Room, held: claims.Claims) -> None:
    """Its pods are where they are, whatever we count: cluster nodes may just have gone. What it lacks it gets first."""
    draft.kind, draft.nodes = draft.kinds[0], draft.minimum
    held.take(draft.job, draft.minimum)
    missing = draft.minimum - sum(placed.pods for placed in draft.job.placement)
    space.take(draft, min(max(missing, 0), space.pods(draft, draft.kind, volatile=False)), volatile=False)
