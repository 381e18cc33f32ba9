"""The decision, in numbered phases on one snapshot. Pure: the same snapshot gives the same grants, in operator and
simulator.

Invariants, checked by `check` on every decision:
1. A job has nothing, or one of its allowed sizes (gang). 2. No cluster node is promised twice. 3. Pods of a job that
has nothing are nowhere. A decision that breaks one is a bug: better no decision than a wrong one.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import (
    asking,
    claims,
    decision,
    explaining,
    exposing,
    lending,
    minimums,
    nominating,
    placing,
    room,
    settings,
    surplus,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from elasticjob_operator.autoscaler import drafts, snapshot

DEFAULT = settings.Settings()
TRIALS = 3
"""Trials looked for a place for in one decision: each that finds none costs a round."""


class InvariantError(AssertionError):
    """The allocator is wrong; its decision must not be carried out."""


def decide(snap: snapshot.Snapshot, rules: settings.Settings = DEFAULT) -> decision.Decision:
    """Nodes for each job, with reasons."""
    snap = nominating.cleaned(snap)
    jobs = nominating.nominate(snap, rules)  # 1. what each could have, were it alone
    ordered = minimums.order(jobs, rules)  # 2. who comes first
    surplus.weigh(ordered, rules)
    placed = _size_and_place(ordered, snap, rules)
    grants = explaining.explain(jobs, placed)  # 7. why
    made = decision.Decision(tuple(asking.ask(grants, jobs, snap, rules)))  # 8. more cluster nodes
    check(made, snap)
    return made


def _size_and_place(ordered: list[drafts.Draft], snap: snapshot.Snapshot, rules: settings.Settings) -> placing.Placed:
    """Again, with what placing found out, until all fits; the last round takes what it got.

    A trial that has no place is none: that round is done over as if nobody had thought of it, with another's or none.
    """
    stuck, tries, left, vain = frozenset[str](), 0, max(rules.rounds, 1), set[str]()
    crowded = minimums.crowded(ordered, snap)
    while True:
        _size(ordered, snap, rules, stuck, crowded=crowded)
        known = [(draft.cap, draft.barred) for draft in ordered]
        borrower = lending.lend(ordered, rules, vain) if len(vain) < TRIALS else None
        exposing.expose(ordered, snap, rules)
        placed = placing.place(ordered, snap, rules, stuck=stuck, tries=tries)  # 6. where
        if borrower and placed.short:
            vain.add(borrower.job.name)
            for draft, (cap, barred) in zip(ordered, known, strict=True):
                draft.cap, draft.barred = cap, barred
            continue
        left -= 1
        if placed.stuck:
            stuck, tries = stuck | placed.stuck, tries + 1
        if not placed.short or left + min(tries, rules.rounds) <= 0:
            return placed


def _size(
    ordered: list[drafts.Draft],
    snap: snapshot.Snapshot,
    rules: settings.Settings,
    stuck: Collection[str],
    *,
    crowded: bool,
) -> None:
    """Sizes from nothing, as far as counting can tell; where it was wrong for the *stuck*, surplus is less by them."""
    held, space = claims.Claims(snap, [draft.job for draft in ordered]), room.Room(snap, rules)
    for draft in ordered:
        draft.nodes, draft.loose, draft.partner = 0, 0, None
    minimums.grant(ordered, space, held, rules, borrowing=False)  # 3. gangs
    if not crowded and not held.unlimited:
        minimums.grant(ordered, space, held, rules, borrowing=True)
    for draft in ordered:
        if draft.nodes and draft.job.name in stuck:
            space.take(draft, min(draft.minimum, space.pods(draft, draft.kind, volatile=False)), volatile=False)
    for borrowing in (False,) if held.unlimited else (False, True):  # nobody to borrow from: once does
        if borrowing and crowded:
            minimums.grant(ordered, space, held, rules, borrowing=True)
        surplus.pin(ordered, space, held, borrowing=borrowing)  # 4. sizes set by people
        surplus.grant(ordered, space, held, rules, borrowing=borrowing)  # 5. to whom each further node helps most


def check(made: decision.Decision, snap: snapshot.Snapshot) -> None:
    """Raise if an invariant is broken."""
    free = {node.name: node.free for node in snap.cluster_nodes}
    used: dict[str, int] = collections.Counter()
    jobs = {job.name: job for job in snap.jobs}
    for grant in made.grants:
        job, pods = jobs[grant.job], sum(placed.pods for placed in grant.placement)
        if grant.nodes and not job.held and not job.minimum <= grant.nodes <= job.maximum:
            raise InvariantError(f"{grant.job}: granted {grant.nodes}, which is outside {job.minimum} to {job.maximum}")
        if job.accelerators and not job.held and grant.nodes != pods:
            raise InvariantError(f"{grant.job}: granted {grant.nodes}, {pods} placed")
        for placed in grant.placement:
            # A held job's pods are where they are, even if their cluster node has less room than we knew.
            free[placed.cluster_node] -= placed.pods * job.accelerators if job.held else 0
            used[placed.cluster_node] += 0 if job.held else placed.pods * job.accelerators
    for name, count in used.items():
        if count > max(free[name], 0):
            raise InvariantError(f"cluster node {name}: promised {count}, free {free[name]}")
