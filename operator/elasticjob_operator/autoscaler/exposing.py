"""Part of phase 6: which jobs have how much on volatile cluster nodes, once all sizes are chosen.

Pods that vanish cost all pods of their job what was done since the last checkpoint, and a job on both sides of the line
is on more cluster nodes than it needs. So stable cluster nodes go, beyond the minimums, first to what would not fill a
volatile one, where splitting would slow its job most, and then to the largest jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import room

if TYPE_CHECKING:
    from elasticjob_operator.autoscaler import drafts, settings, snapshot


def expose(ordered: list[drafts.Draft], snap: snapshot.Snapshot, rules: settings.Settings) -> None:
    """Choose each draft's `loose`; as they are counted already where this choice does not fit."""
    space = room.Room(snap, rules)
    if not space.any_volatile:
        return
    active = [draft for draft in ordered if draft.nodes and draft.job.accelerators and not draft.job.held]
    firm = {draft.job.name: _needed(draft, rules, space) for draft in active}
    for draft in active:
        space.take(draft, firm[draft.job.name], volatile=False)
    _unsplit(active, firm, space)
    for draft in sorted(active, key=lambda d: _rank(d, space)):
        more = min(draft.nodes - firm[draft.job.name], space.pods(draft, draft.kind, volatile=False))
        firm[draft.job.name] += more
        loose = draft.nodes - firm[draft.job.name]
        if loose > space.pods(draft, draft.kind, volatile=True):
            return
        space.take(draft, more, volatile=False)
        space.take(draft, loose, volatile=True)
    for draft in active:
        draft.loose = draft.nodes - firm[draft.job.name]


def _unsplit(active: list[drafts.Draft], firm: dict[str, int], space: room.Room) -> None:
    """Make what is left for volatile cluster nodes fill them, where the stable ones have room for all of the rest."""

    def rest(draft: drafts.Draft) -> int:
        hosts = space.volatile_hosts(draft.kind, draft.job.sized)
        return (draft.nodes - firm[draft.job.name]) % hosts if hosts else 0

    def saved(draft: drafts.Draft) -> float:
        loss = draft.curve.log(draft.nodes) - draft.curve.log(draft.nodes, scattered=True)
        return draft.weight * loss / max(rest(draft), 1)

    for draft in sorted(active, key=saved, reverse=True):
        more = rest(draft)
        if more <= space.pods(draft, draft.kind, volatile=False):
            firm[draft.job.name] += more
            space.take(draft, more, volatile=False)


def _needed(draft: drafts.Draft, rules: settings.Settings, space: room.Room) -> int:
    """Nodes that must be on stable cluster nodes."""
    if rules.volatile_minimum:
        return 0
    return max(min(draft.minimum, draft.job.minimum, draft.nodes) - space.fixed(draft, draft.kind), 0)


def _rank(draft: drafts.Draft, space: room.Room) -> tuple[bool, bool, int, str]:
    """Who can be nowhere else, who fits on one cluster node, who has most pods."""
    movable = space.pods(draft, draft.kind, volatile=True) > 0
    return movable, draft.nodes > space.volatile_hosts(draft.kind, draft.job.sized), -draft.nodes, draft.job.name
