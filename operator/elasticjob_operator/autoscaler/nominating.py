"""Phase 1: what each job could have at all, were it alone. Whoever asks for the impossible is told so and holds
nobody up.

Everything odd ends here: later phases see sane sizes, finite numbers and at least one kind of accelerator for each job
that is left. It never raises: a job is somebody's input, and one bad job must not stop the others' decisions.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import TYPE_CHECKING, Any

from elasticjob_operator.api import words
from elasticjob_operator.autoscaler import decision, drafts
from elasticjob_rendezvous.round import slots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from elasticjob_operator.autoscaler import settings, snapshot

USUAL_COST = 30.0
"""Seconds that a change is taken to cost where what was measured cannot be (what Pollux assumes)."""
Hosts = dict[str, tuple[int, int]]
"""By kind: pods of one size that fit into the empty cluster, on stable cluster nodes and on all."""


def nominate(snap: snapshot.Snapshot, rules: settings.Settings) -> list[drafts.Draft]:
    """One draft for each job, in the snapshot's order."""
    quotas = {quota.namespace: max(quota.free, 0) for quota in snap.quotas}
    limits = {queue.name: queue.limit for queue in snap.queues if queue.limit is not None}
    seen: dict[tuple[frozenset[str] | None, int], Hosts] = {}
    kinds = {node.name: node.kind for node in snap.cluster_nodes}
    closed = {node.name: node for node in snap.cluster_nodes if not node.schedulable}
    return [
        _nominate(job, _with_own(job, _hosts(job, snap, seen), closed), rules, _most(job, quotas, limits), kinds)
        for job in snap.jobs
    ]


def cleaned(snap: snapshot.Snapshot) -> snapshot.Snapshot:
    """The same with numbers that can be; a name that comes twice counts once."""
    unique = {job.name: _clean(job) for job in reversed(snap.jobs)}
    return dataclasses.replace(snap, jobs=tuple(reversed(unique.values())))


def _clean(job: snapshot.Job) -> snapshot.Job:
    """There is nothing to hold of a job that has nothing; a cost that cannot be is the usual one."""
    usual = {"age": 0.0, "served": 0.0, "waited": 0.0, "stood": 0.0, "unsaved": 0.0, "resize_cost": USUAL_COST}
    odd: dict[str, Any] = {name: value for name, value in usual.items() if not possible(getattr(job, name))}
    if job.held and job.granted < 1:
        odd["held"] = False
    return dataclasses.replace(job, **odd) if odd else job


def possible(value: float) -> bool:
    """Whether it is a number that arithmetic and ordering survive: not NaN, infinite or negative."""
    return math.isfinite(value) and value >= 0


def _nominate(
    job: snapshot.Job, hosts: Hosts, rules: settings.Settings, most: int | None, kinds: Mapping[str, str]
) -> drafts.Draft:
    draft, sizes = drafts.Draft(job=job), _sizes(job)
    if job.held:
        draft.sizes, draft.kinds = (job.granted,), _ordered(job, hosts, kinds) or ("",)
        return draft
    firm = {kind: fit[1] if rules.volatile_minimum else fit[0] for kind, fit in hosts.items()}
    if objection := _objection(job, sizes, firm, most):
        draft.reason, draft.message = objection
        return draft
    able = {kind: fit for kind, fit in hosts.items() if firm[kind] >= sizes[0]}
    top = min(max(fit[1] for fit in able.values()), slots.MAX_SLOTS)
    top = top if job.ceiling is None else min(top, job.ceiling)
    draft.sizes, draft.kinds = _pin(job, _upto(sizes, top)), _ordered(job, able, kinds)
    return draft


def _objection(
    job: snapshot.Job, sizes: Sequence[int], firm: Mapping[str, int], most: int | None
) -> tuple[decision.Reason, str] | None:
    """Why it can never run as things are, or None."""
    reasons, least = decision.Reason, sizes[0] if sizes else 0
    if not sizes:
        return reasons.INVALID, f"no number of nodes from {job.minimum} to {job.maximum} is allowed"
    if most is not None and least * job.accelerators > most:
        return (
            reasons.QUOTA,
            f"its minimum needs {words.counted(least * job.accelerators, 'accelerator')}, the quota leaves {most}",
        )
    if not firm:
        return reasons.NO_CAPACITY, "no cluster node it may run on has room for one of its pods"
    if max(firm.values()) < least:
        return (
            reasons.TOO_LARGE,
            f"its minimum is {words.counted(least, 'node')}, there is room for {max(firm.values())}",
        )
    if job.ceiling is not None and least > job.ceiling:
        return (
            reasons.NO_CAPACITY,
            f"pods beyond {job.ceiling} stayed unschedulable, its minimum is {words.counted(least, 'node')}",
        )
    return None


def _sizes(job: snapshot.Job) -> Sequence[int]:
    if job.minimum < 1 or job.maximum < job.minimum or job.accelerators < 0:
        return ()
    if not job.allowed:
        return range(job.minimum, job.maximum + 1)
    return sorted({size for size in job.allowed if job.minimum <= size <= job.maximum})


def _upto(sizes: Sequence[int], top: int) -> Sequence[int]:
    if isinstance(sizes, range):
        return range(sizes.start, min(sizes.stop, top + 1))
    return [size for size in sizes if size <= top]


def _pin(job: snapshot.Job, sizes: Sequence[int]) -> Sequence[int]:
    """A person's size is obeyed as near as the sizes allow: all up to it, so that it runs smaller rather than not."""
    if job.pinned is None:
        return sizes
    return _upto(sizes, max(job.pinned, sizes[0]))


def _hosts(job: snapshot.Job, snap: snapshot.Snapshot, seen: dict[tuple[frozenset[str] | None, int], Hosts]) -> Hosts:
    """Computed once for jobs with the same candidates and the same pod size."""
    key = job.candidates, job.accelerators
    if key not in seen:
        seen[key] = _count(job, snap.cluster_nodes)
    return seen[key]


def _with_own(job: snapshot.Job, hosts: Hosts, closed: Mapping[str, snapshot.ClusterNode]) -> Hosts:
    """Cordoned cluster nodes are room for the pods that are there."""
    own = [(closed[placed.cluster_node], placed.pods) for placed in job.placement if placed.cluster_node in closed]
    if not own:
        return hosts
    out = dict(hosts)
    for node, pods in own:
        stable, every = out.get(node.kind, (0, 0))
        out[node.kind] = (stable + (0 if node.volatile else max(pods, 0)), every + max(pods, 0))
    return out


def _count(job: snapshot.Job, cluster_nodes: tuple[snapshot.ClusterNode, ...]) -> Hosts:
    stable: dict[str, int] = collections.Counter()
    every: dict[str, int] = collections.Counter()
    for node in cluster_nodes:
        if not node.schedulable or (job.candidates is not None and node.name not in job.candidates):
            continue
        pods = max(node.free, 0) // job.accelerators if job.accelerators > 0 else slots.MAX_SLOTS
        if pods > 0:
            every[node.kind] += pods
            stable[node.kind] += 0 if node.volatile else pods
    return {kind: (stable[kind], every[kind]) for kind in every}


def _most(job: snapshot.Job, quotas: Mapping[str, int], limits: Mapping[str, int]) -> int | None:
    """Accelerators that namespace and queue leave it even when it is alone."""
    known = [limit for limit in (quotas.get(job.namespace), limits.get(job.queue)) if limit is not None]
    return max(min(known), 0) if known else None


def _ordered(job: snapshot.Job, hosts: Hosts, kinds: Mapping[str, str]) -> tuple[str, ...]:
    """The kind it runs on first, then where one node of it is fastest, then where there is most room."""
    held = collections.Counter[str]()
    for placed in job.placement:
        held[kinds.get(placed.cluster_node, "")] += placed.pods

    def rank(kind: str) -> tuple[int, float, int, str]:
        curve = job.curves.get(kind)
        return -held[kind], -(curve.log(job.minimum) if curve else -math.inf), -hosts[kind][1], kind

    return tuple(sorted(hosts, key=rank))
