"""The snapshot: every ElasticJob that wants to run, in a cluster as it is, with what is remembered of each.

Ours to decide are jobs without `spec.nodes`. One that has it is pinned: its pods count, and what it still lacks is kept
for it, but its size is its owner's affair. Pods of jobs that are over, suspended or leave are others' while they last.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import snapshot
from elasticjob_operator.autoscaler.seeing import matching, measuring, objects, stock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from elasticjob_operator.api import job as jobs
    from elasticjob_operator.api import spec as specs

HOLD_SECONDS = 120
"""So long a job that re-forms is left as it is: a round takes seconds, and who needs longer has other troubles."""


CPUS = snapshot.ClusterNode("cpus", 0, kind="cpu")
"""Where jobs without devices are: nothing is counted there, the scheduler says when there is no room."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What was read, from the API and from memory."""

    jobs: tuple[jobs.Job, ...]
    nodes: tuple[objects.Node, ...] = ()
    pods: tuple[objects.Pod, ...] = ()
    quotas: tuple[objects.Quota, ...] = ()
    priorities: tuple[objects.Priority, ...] = ()
    memories: Mapping[str, measuring.Memory] = dataclasses.field(default_factory=dict)
    """By the jobs' UIDs."""
    ceilings: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Pods that the scheduler did find room for, of jobs whose others stayed unschedulable lately."""
    promised: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Sizes that were decided and wait for room, by the jobs' names in the snapshot."""
    volatile_lifetime: float = math.inf
    """Seconds that a spot cluster node lasts."""
    now: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """How an administrator has the cluster read."""

    resources: tuple[str, ...]
    """Extended resources that count as accelerators, the most wanted first."""
    topology: str
    """Label of cluster nodes that names the topology domain."""
    queues: tuple[snapshot.Queue, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """One job as the decision sees it."""

    job: jobs.Job
    wish: specs.Spec
    resource: str
    """What its pods train on; empty: CPUs."""
    each: int
    """Devices of one pod."""
    wishes: matching.Wishes
    bound: tuple[objects.Pod, ...] = ()
    """Its pods that have a cluster node and do not leave, the lowest slots first."""

    @property
    def key(self) -> str:
        """Its name in the snapshot."""
        return f"{self.job.namespace}/{self.job.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class Picture:
    """The snapshot, and what its names stand for."""

    snapshot: snapshot.Snapshot
    seen: Mapping[str, Seen]
    stock: stock.Stock


def seen(told: jobs.Job, resources: Collection[str]) -> Seen | None:
    """The job's demands; nothing if it wants no pods (any more), or its spec can't be understood."""
    if isinstance(told.spec, str) or told.deleting or told.status.finished or told.status.result:
        return None
    pod = told.spec.template["spec"]
    try:
        held, wishes = objects.requests(pod), matching.wishes(pod)
    except (AttributeError, TypeError, KeyError, ValueError):
        held, wishes = {}, matching.Wishes()  # the API server refuses its pods, and then it is told so
    resource = next((name for name in resources if held.get(name)), "")
    return Seen(told, told.spec, resource, held.get(resource, 0), wishes)


def paint(world: World, rules: Rules) -> Picture:
    """The picture of this moment."""
    found = [one for one in (seen(job, rules.resources) for job in world.jobs) if one is not None]
    ours = {one.job.uid: one for one in found}
    pods = _bound(world.pods, ours)
    found = [dataclasses.replace(one, bound=tuple(pods.get(one.job.uid, ()))) for one in found]
    stocked = stock.take(world.nodes, world.pods, rules.resources, ours)
    priorities = {p.name: p.value for p in world.priorities}
    default = next((p.value for p in world.priorities if p.default), 0)
    shared: dict[tuple[matching.Wishes, str], frozenset[str]] = {}
    listed = []
    for one in found:
        key = one.wishes, one.resource
        if key not in shared:
            shared[key] = stocked.candidates(*key) if one.resource else frozenset({CPUS.name})
        name = one.wish.template["spec"].get("priorityClassName") or ""
        listed.append(_job(one, world, shared[key], priorities.get(str(name), default)))
    return Picture(
        snapshot.Snapshot(
            cluster_nodes=(*stocked.cluster_nodes(rules.topology), CPUS),
            jobs=tuple(listed),
            queues=rules.queues,
            quotas=_quotas(world, found, ours),
            volatile_lifetime=world.volatile_lifetime,
        ),
        {one.key: one for one in found},
        stocked,
    )


def _bound(pods: Iterable[objects.Pod], ours: Mapping[str, Seen]) -> dict[str, list[objects.Pod]]:
    found: dict[str, list[objects.Pod]] = collections.defaultdict(list)
    for pod in sorted(pods, key=lambda pod: (len(pod.name), pod.name)):
        if pod.owner in ours and pod.node and not pod.leaving:
            found[pod.owner].append(pod)
    return found


def _job(one: Seen, world: World, candidates: frozenset[str], priority: int) -> snapshot.Job:
    wish, job = one.wish, one.job
    memory, known = world.memories.get(job.uid), job.status.allocation
    decided = wish.nodes is None and known is not None and not known.dry_run
    granted = known.nodes if known and decided else len(one.bound)
    age = max(world.now - job.created, 0)
    since = max(world.now - known.time, 0) if known else age
    minimum, maximum = wish.min_nodes, wish.max_nodes
    if wish.nodes is not None:
        minimum, maximum = min(max(minimum, len(one.bound)), wish.nodes), wish.nodes
    return snapshot.Job(
        name=one.key,
        minimum=minimum,
        maximum=maximum,
        age=age,
        allowed=tuple(sorted(wish.sizes)) if wish.nodes is None else (),
        accelerators=one.each,
        candidates=candidates,
        namespace=job.namespace,
        queue=wish.queue,
        priority=priority,
        pinned=wish.nodes,
        held=_held(one, world.now, granted),
        granted=granted,
        promised=world.promised.get(one.key, 0),
        stood=since if decided else 0,
        placement=_placement(one, granted),
        ceiling=world.ceilings.get(job.uid),
        waited=since if known is None or not known.nodes else 0,
        served=(known.served if known else 0) + (since * granted * max(one.each, 1)),
        resize_cost=_cost(memory),
        curves={"": memory.knowledge.curve} if memory else {},
        measured=memory.knowledge.sizes if memory else frozenset(),
    )


def _cost(memory: measuring.Memory | None) -> float:
    measured = memory.resize_seconds if memory else None
    return measuring.DEFAULT_COST if measured is None else measured


def _held(one: Seen, now: int, granted: int) -> bool:
    """Finishing, all its wanted pods there though a person asked for them, or just now re-forming."""
    known = one.job.status
    if known.round_phase == "Finishing" or (one.wish.nodes is not None and 0 < one.wish.nodes <= granted):
        return True
    moment = known.notice_time if known.round_phase == "Sealed" else known.round_time
    reforms = known.notice_time is not None or (known.round_phase == "Open" and known.round > 1)
    return reforms and moment is not None and now - moment < HOLD_SECONDS


def _placement(one: Seen, granted: int) -> tuple[snapshot.Placement, ...]:
    """Where its pods are; those above its grant are about to leave."""
    where = collections.Counter(stock.Place(pod.node, one.resource).key for pod in one.bound[: max(granted, 0)])
    return tuple(snapshot.Placement(name, count) for name, count in sorted(where.items()))


def _quotas(world: World, found: Iterable[Seen], ours: Mapping[str, Seen]) -> tuple[snapshot.Quota, ...]:
    """What a namespace's quotas leave to its jobs: all of their resources together, if each of them is limited."""
    wanted: dict[str, set[str]] = collections.defaultdict(set)
    for one in found:
        if one.resource:
            wanted[one.job.namespace].add(one.resource)
    hard: dict[tuple[str, str], int] = {}
    for quota in world.quotas:
        for resource, count in quota.hard.items():
            key = quota.namespace, resource
            hard[key] = min(hard.get(key, count), count)
    for pod in world.pods:
        for resource, count in pod.devices.items() if pod.owner not in ours else ():
            if (pod.namespace, resource) in hard:
                hard[pod.namespace, resource] -= count
    return tuple(
        snapshot.Quota(namespace, sum(max(hard[namespace, resource], 0) for resource in resources))
        for namespace, resources in sorted(wanted.items())
        if all((namespace, resource) in hard for resource in resources)
    )
