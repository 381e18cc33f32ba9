"""Phase 6: which cluster nodes. Running pods stay unless their job changes anyway, or packing it earns a change back.

Finds out what counting could not know: pods that do not fit because room is scattered. Such a job is capped, or
barred when it is its minimum that does not fit, and sizes are chosen again.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import board, clearing

if TYPE_CHECKING:
    from elasticjob_operator.autoscaler import drafts, settings, snapshot

Places = dict[str, board.Pods]
"""Pods by job and cluster node."""


@dataclasses.dataclass(slots=True)
class Placed:
    """The result, and whether choosing sizes again would do better."""

    pods: Places
    short: bool = False
    stuck: frozenset[str] = frozenset()
    """Jobs whose minimum found no place beside the pods that stay."""


def place(
    ordered: list[drafts.Draft],
    snap: snapshot.Snapshot,
    rules: settings.Settings,
    *,
    stuck: frozenset[str] = frozenset(),
    tries: int = 0,
) -> Placed:
    """Place what stays, then what changes; then see what is better moved.

    `stuck`: jobs that have found no place for their minimum before; room is made for them on stable cluster nodes.
    `tries`: how often that was. Twice was not enough: only what is held stays, all minimums have their places before
    any surplus, and who finds no place then has none.
    Where nothing may move, one try for which others have shrunk is all there is.
    """
    anew = rules.moves and tries > 1
    last = anew or (tries > 0 and not rules.moves)
    table = board.Board(snap)
    active = [draft for draft in ordered if draft.nodes and draft.job.accelerators]
    out = Placed({draft.job.name: {} for draft in active})
    clearer = clearing.Clearing(table, out.pods, rules)
    changing, staying = [], []
    giving = _giving(active, table, stuck)
    for draft in active:
        may = draft.job.held or not (anew or draft.job.name in giving)
        if may and _stay(draft, table, out, rules):
            clearer.settle(draft)
            staying.append(draft)
        else:
            changing.append(draft)
    if anew:
        changing.sort(key=lambda draft: -draft.job.accelerators)  # packs best; of equals whoever comes first
        _minimums(changing, table, out, rules)
    elif not last:  # they have room in this order only; at last nobody loses its place to one that comes later
        changing.sort(key=_sensitive)
        changing.sort(key=lambda draft: (draft.job.name not in stuck, draft.job.name not in giving))
    for draft in changing:
        kept = out.pods[draft.job.name] if anew else _kept(draft, table, rules)
        table.lift(out.pods[draft.job.name], draft.job.accelerators)
        if draft.nodes:
            _put(draft, table, out, rules, None if anew or not rules.moves else clearer, last=last, kept=kept)
    for draft in staying if rules.moves else ():
        if not draft.job.held:
            _pack(draft, table, out, rules)
    return out


def _minimums(changing: list[drafts.Draft], table: board.Board, out: Placed, rules: settings.Settings) -> None:
    """Everybody's minimum, whole or not at all; the rest is for `place`."""
    for draft in changing:
        whole, loose = draft.nodes, draft.loose
        draft.nodes, draft.loose = draft.minimum, max(draft.loose - (whole - draft.minimum), 0)
        _put(draft, table, out, rules, None, last=True, kept={})
        if draft.nodes:
            draft.nodes, draft.loose = whole, loose


def _sensitive(draft: drafts.Draft) -> tuple[float, bool, int]:
    """Who loses most by being scattered chooses first, then who is there already, then the largest."""
    curve = draft.curve
    loss = curve.log(draft.nodes) - curve.log(draft.nodes, scattered=True)
    return -loss * draft.weight, not draft.job.placement, -draft.nodes * draft.job.accelerators


def _giving(active: list[drafts.Draft], table: board.Board, stuck: frozenset[str]) -> set[str]:
    """Who leaves stable cluster nodes to the stuck: of those with more there than they count for the least weighty,
    and no more of them than it takes.
    """
    lacking = sum(draft.minimum * draft.job.accelerators for draft in active if draft.job.name in stuck)
    giving = set[str]()
    for draft in sorted(active, key=lambda draft: draft.weight) if lacking else ():
        more = _stable(present(draft.job, table), table) - (draft.nodes - draft.loose)
        if more > 0 and lacking > 0 and not draft.job.held:
            giving.add(draft.job.name)
            lacking -= more * draft.job.accelerators
    return giving


def _stable(pods: board.Pods, table: board.Board) -> int:
    return sum(count for name, count in pods.items() if not table.nodes[name].volatile)


def present(job: snapshot.Job, table: board.Board) -> board.Pods:
    """Its pods on cluster nodes that are still there."""
    out: board.Pods = {}
    for placed in job.placement:
        if placed.cluster_node in table.nodes and placed.pods > 0:
            out[placed.cluster_node] = out.get(placed.cluster_node, 0) + placed.pods
    return out


def _stay(draft: drafts.Draft, table: board.Board, out: Placed, rules: settings.Settings) -> bool:
    """Whether exactly its pods remain: same number, room for them, and its minimum not on what may vanish."""
    job, pods = draft.job, present(draft.job, table)
    fits = all(table.free[name] >= count * job.accelerators for name, count in pods.items())
    same = draft.nodes == job.granted == sum(pods.values()) and _firm(draft, pods, table, rules)
    if not job.held and not (fits and same):
        return False
    table.put(pods, job.accelerators)
    out.pods[job.name] = pods
    return True


def _firm(draft: drafts.Draft, pods: board.Pods, table: board.Board, rules: settings.Settings) -> bool:
    """Whether its minimum is there, and not on what may vanish; where nothing moves, what is there already counts."""
    counted = dict(pods)
    if not rules.volatile_minimum:
        there = {} if rules.moves else present(draft.job, table)
        counted = {n: min(pods[n], there.get(n, 0)) if table.nodes[n].volatile else pods[n] for n in pods}
    return sum(counted.values()) >= draft.minimum


def _put(
    draft: drafts.Draft,
    table: board.Board,
    out: Placed,
    rules: settings.Settings,
    clearer: clearing.Clearing | None,
    *,
    last: bool,
    kept: board.Pods,
) -> None:
    """New pods beside `kept` ones, or all anew where that needs fewer cluster nodes: the change costs the same.

    `last`: whose minimum finds no place now has none.
    """
    job = draft.job
    pods = _best(draft, kept, table, rules) if rules.moves else _added(draft, kept, table)
    found = sum(pods.values())
    if not _firm(draft, pods, table, rules):
        out.short, out.stuck = True, out.stuck | {job.name}
        draft.barred = last
        pods = {}
    elif found < draft.nodes:
        out.short = True
        draft.cap = max(size for size in draft.sizes if size <= found)
        pods = _fewer(pods, draft.cap, table)
    elif clearer and len(pods) > 1 and scattered(draft, pods, table):
        pods = _gathered(draft, pods, table, out, clearer)
    draft.nodes = sum(pods.values())
    table.put(pods, job.accelerators)
    out.pods[job.name] = pods


def _best(draft: drafts.Draft, kept: board.Pods, table: board.Board, rules: settings.Settings) -> board.Pods:
    def cost(pods: board.Pods) -> tuple[bool, int, int]:
        return not _firm(draft, pods, table, rules), -sum(pods.values()), len(pods)

    pods = _added(draft, kept, table)
    counted = all(table.nodes[name].schedulable for name in kept)  # what leaves a cordoned one needs room of others'
    if kept and counted and (len(pods) > 1 or sum(pods.values()) < draft.nodes):
        return min(pods, _added(draft, {}, table), key=cost)
    return pods


def _gathered(
    draft: drafts.Draft, pods: board.Pods, table: board.Board, out: Placed, clearer: clearing.Clearing
) -> board.Pods:
    """On one cluster node that is cleared for it, if that pays; else, next round, a smaller size if that is faster."""
    better = _tighter(draft, table)
    reached = max(draft.curve.log(better), draft.curve.log(draft.nodes, scattered=True))
    if cleared := clearer.clear(draft, draft.curve.log(draft.nodes) - reached):
        return cleared
    if better and draft.cap is None:
        out.short = True
        draft.cap = better
    return pods


def _kept(draft: drafts.Draft, table: board.Board, rules: settings.Settings) -> board.Pods:
    """Of its running pods those that remain: surplus ones leave where the job has fewest, volatile and cordoned
    first.
    """
    each = draft.job.accelerators
    pods = {name: min(count, table.free[name] // each) for name, count in present(draft.job, table).items()}
    allowed = frozenset.union(*table.hosts(draft.job, draft.kind))
    pods = {
        name: count for name, count in pods.items() if count and (name in allowed or not table.nodes[name].schedulable)
    }
    if not rules.volatile_minimum and rules.moves:
        pods = _limited(pods, draft, table)
    return _fewer(pods, draft.nodes, table)


def _limited(pods: board.Pods, draft: drafts.Draft, table: board.Board) -> board.Pods:
    """On stable and on volatile cluster nodes not more than it counts for."""
    stable = {name: count for name, count in pods.items() if not table.nodes[name].volatile}
    volatile = {name: count for name, count in pods.items() if name not in stable}
    return _fewer(stable, draft.nodes - draft.loose, table) | _fewer(volatile, draft.loose, table)


def _fewer(pods: board.Pods, wanted: int, table: board.Board) -> board.Pods:
    out = dict(pods)
    leaving = sorted(out, key=lambda n: (table.nodes[n].schedulable, not table.nodes[n].volatile, out[n], n))
    surplus = sum(out.values()) - wanted
    for name in leaving:
        gone = max(min(out[name], surplus), 0)
        out[name] -= gone
        surplus -= gone
    return {name: count for name, count in out.items() if count}


def _added(draft: drafts.Draft, kept: board.Pods, table: board.Board) -> board.Pods:
    """`kept` and as many new pods as it wants and room allows: its minimum on stable cluster nodes, the rest on any."""
    job = draft.job
    near = [*kept, *present(job, table)]
    pods = dict(kept)
    table.put(pods, job.accelerators)
    for group, wanted in _groups(draft, kept, table):
        more = table.fill(group, job.accelerators, min(wanted, draft.nodes - sum(pods.values())), near)
        table.put(more, job.accelerators)
        for name, count in more.items():
            pods[name] = pods.get(name, 0) + count
    table.lift(pods, job.accelerators)
    return pods


def _groups(draft: drafts.Draft, kept: board.Pods, table: board.Board) -> list[tuple[frozenset[str], int]]:
    """Cluster nodes in the order in which they are filled, and with how many pods at most."""
    stable, volatile = table.hosts(draft.job, draft.kind)
    if not volatile:
        return [(stable, draft.nodes)]
    firm = draft.nodes - draft.loose - sum(count for name, count in kept.items() if name in stable)
    return [(stable, max(firm, 0)), (volatile, draft.nodes), (stable, draft.nodes)]


def _tighter(draft: drafts.Draft, table: board.Board) -> int:
    """A smaller size that fits on one cluster node and is faster than its pods scattered; 0 if there is none."""
    largest = table.largest(draft.job, draft.kind)
    whole = [size for size in draft.sizes if size <= min(largest, draft.nodes - 1)]
    best = max(whole, key=draft.curve.log, default=0)
    pinned = draft.job.pinned is not None
    return best if not pinned and draft.curve.log(best) >= draft.curve.log(draft.nodes, scattered=True) else 0


def scattered(draft: drafts.Draft, pods: board.Pods, table: board.Board) -> bool:
    """Whether they are on more cluster nodes than the largest ones would need."""
    need, fewest = sum(pods.values()), 0
    for size in table.capacities(draft.job, draft.kind):
        if need <= 0 or not size:
            break
        need -= size
        fewest += 1
    return len(pods) > fewest


def _pack(draft: drafts.Draft, table: board.Board, out: Placed, rules: settings.Settings) -> None:
    """Move a job that stays onto fewer cluster nodes if that earns the change back within the horizon."""
    job, pods = draft.job, out.pods[draft.job.name]
    gain = draft.curve.log(draft.nodes) - draft.curve.log(draft.nodes, scattered=True)
    if len(pods) < 2 or gain <= draft.cost(rules) or not scattered(draft, pods, table):  # noqa: PLR2004 -- as above
        return
    table.lift(pods, job.accelerators)
    anew = _added(draft, {}, table)
    if sum(anew.values()) == draft.nodes and not scattered(draft, anew, table):
        out.pods[job.name] = pods = anew
    table.put(pods, job.accelerators)
