"""Phase 7: a grant's words, for conditions, events and people. Says what changed, what it is worth and who pays for
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elasticjob_operator.api import words
from elasticjob_operator.autoscaler import curves, decision, snapshot

if TYPE_CHECKING:
    from elasticjob_operator.autoscaler import drafts, placing

NAMED = 2
"""Jobs named in one message; more is noise."""


def explain(jobs: list[drafts.Draft], placed: placing.Placed) -> list[decision.Grant]:
    """One grant for each job."""
    more = {d.job.name: (d.nodes - d.job.granted) * d.job.accelerators for d in jobs}
    freed = {name: -count for name, count in more.items() if count < 0}
    taken = {name: count for name, count in more.items() if count > 0}
    parties = _names(freed), _names(taken)
    return [_grant(draft, placed.pods.get(draft.job.name, {}), *parties) for draft in jobs]


def _grant(draft: drafts.Draft, pods: dict[str, int], freed: str, taken: str) -> decision.Grant:
    reason = _reason(draft, pods)
    return decision.Grant(
        job=draft.job.name,
        before=draft.job.granted,
        nodes=draft.nodes,
        reason=reason,
        message=_message(draft, reason, freed, taken),
        placement=tuple(snapshot.Placement(name, count) for name, count in sorted(pods.items())),
    )


def _reason(draft: drafts.Draft, pods: dict[str, int]) -> decision.Reason:
    job, reasons = draft.job, decision.Reason
    if not draft.nodes:
        return draft.reason if not draft.sizes else (reasons.PREEMPTED if job.granted else reasons.WAITING)
    if job.held:
        return reasons.HELD
    if not job.granted:
        return reasons.STARTED
    if draft.nodes != job.granted:
        pinned = job.pinned is not None and draft.nodes == job.pinned
        return reasons.PINNED if pinned else reasons.GROWN if draft.nodes > job.granted else reasons.SHRUNK
    before = {placed.cluster_node: placed.pods for placed in job.placement}
    return reasons.MOVED if pods and before and pods != before else reasons.KEPT


def _message(draft: drafts.Draft, reason: decision.Reason, freed: str, taken: str) -> str:
    if draft.message:
        return draft.message
    before, after, reasons = draft.job.granted, draft.nodes, decision.Reason
    if after and after != before:
        return _change(draft, freed, taken)
    if reason is reasons.MOVED:
        return f"stays at {after}, on other cluster nodes: packs better"
    told = {
        reasons.WAITING: "waits: jobs before it in order have the room that its minimum needs",
        reasons.PREEMPTED: f"{before} → 0: gives way to {taken or 'others'}",
    }
    return told.get(reason, f"stays at {after}")


def _change(draft: drafts.Draft, freed: str, taken: str) -> str:
    before, after = draft.job.granted, draft.nodes
    if draft.partner and draft.partner.nodes != draft.partner.job.granted:
        return f"{before} → {after}: {_trade(draft, draft.partner)}"
    if not before:
        return f"starts with {after} of at most {words.counted(draft.job.maximum, 'node')}"
    part = curves.gain(draft.curve.log(before), draft.curve.log(after))
    percent = f"{part:+.0%}".replace("%", " %").replace("-", "−")  # noqa: RUF001 -- a minus sign
    if after > before:
        why = f"accelerators freed by {freed}" if freed else "free capacity"
    else:
        why = f"accelerators to {taken}" if taken else "less capacity"
    return f"{before} → {after}: {percent} throughput, {why}"


def _trade(draft: drafts.Draft, partner: drafts.Draft) -> str:
    if draft.nodes > draft.job.granted:
        lent = words.counted(partner.job.granted - partner.nodes, "node")
        return f"tries this size for the first time, {lent} lent by {partner.job.name}"
    return f"lent to {partner.job.name}, which tries {partner.nodes} for the first time"


def _names(counts: dict[str, int]) -> str:
    """The largest parties first: `2 by b` reads best when there is one."""
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{name} ({count})" for name, count in most[:NAMED])
    return named + (f" and {len(most) - NAMED} more" if len(most) > NAMED else "")
