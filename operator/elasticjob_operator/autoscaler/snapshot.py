"""What the allocator decides from: one frozen picture of cluster nodes, jobs, queues and quotas.

Whoever reads the cluster fills it in; nothing here asks anybody anything, and there is no time of day: ages are
seconds. Values are believed as they stand, however absurd: `nominating.py` takes out what makes no sense.

"Node" is torchrun's, one pod; a Kubernetes node is a *cluster node*. "Accelerators" are whole devices of one resource.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elasticjob_operator.api import settings
    from elasticjob_operator.autoscaler import curves


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterNode:
    """A Kubernetes node. `free` is what our jobs' pods may share: allocatable less what all other pods request."""

    name: str
    free: int
    kind: str = ""
    """Accelerator resource and product, such as `nvidia.com/gpu/T4`: a job's pods all run on one kind."""
    domain: str = ""
    """Topology domain (rack, zone): pods of a job are packed within one where they fit."""
    volatile: bool = False
    """Spot: may vanish any time, so it holds what a job can lose, never its minimum."""
    schedulable: bool = True
    """False when cordoned: pods that are there stay, no new ones come."""


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Pods of one job on one cluster node."""

    cluster_node: str
    pods: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """An ElasticJob that is neither finished nor suspended by its owner."""

    name: str
    """Unique: `namespace/name`."""
    minimum: int
    maximum: int
    age: float
    """Seconds since it was created."""
    allowed: tuple[int, ...] = ()
    """The sizes it may run at; empty: any from minimum to maximum."""
    accelerators: int = 1
    """Devices of one pod; 0: trains on CPUs."""
    candidates: frozenset[str] | None = None
    """Cluster nodes its pod template can run on (selectors, affinities, taints); share one set among like jobs. None:
    all."""
    namespace: str = ""
    queue: str = ""
    priority: int = 0
    pinned: int | None = None
    """`spec.nodes`: somebody else has decided the size."""
    held: bool = False
    """In the middle of a resize, or finishing: its size must stay what it is."""
    granted: int = 0
    """Its size as last decided; 0: waiting or suspended by us."""
    promised: int = 0
    """A larger size that was decided, and whose room others still leave; 0: none."""
    stood: float = 0.0
    """Seconds that its size has been what it is."""
    placement: tuple[Placement, ...] = ()
    """Where its pods are."""
    ceiling: int | None = None
    """Pods above this number stayed unschedulable lately; the operator lifts it again after a while."""
    waited: float = 0.0
    """Seconds it has been without a grant since it last had one (or since it was created)."""
    served: float = 0.0
    """Accelerator-seconds it has had (pod-seconds when it trains on CPUs)."""
    resize_cost: float = 30.0
    """Seconds of training that one change of its pods costs, as measured; 30 s is what Pollux assumes."""
    unsaved: float = 0.0
    """Seconds of training that pods vanishing without notice cost beyond that: half the time between its
    checkpoints."""
    curves: Mapping[str, curves.Curve] = dataclasses.field(default_factory=dict)
    """Throughput by size, for each kind of accelerator measured; `""` stands for every other."""
    measured: frozenset[int] = frozenset()
    """Sizes with reports enough to be believed. Empty: all is known, or it does not report."""

    @property
    def sized(self) -> int:
        """Accelerators (or pods, on CPUs) that one of its nodes counts for."""
        return max(self.accelerators, 1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A team's claim. What one queue leaves unused others borrow, and give back when it is wanted."""

    name: str
    weight: float = 1.0
    """Share of the cluster relative to the other queues that have jobs, where no quota says it."""
    quota: int | None = None
    """Accelerators that are its own."""
    limit: int | None = None
    """Accelerators it may hold at most, borrowed ones included. None: all."""


def queues(wish: settings.Autoscaler) -> tuple[Queue, ...]:
    """Those that an administrator has set."""
    return tuple(Queue(**dataclasses.asdict(queue)) for queue in wish.queues)


@dataclasses.dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota on accelerators: what our jobs in the namespace may hold (hard less what other pods use)."""

    namespace: str
    free: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that a decision sees."""

    cluster_nodes: tuple[ClusterNode, ...]
    jobs: tuple[Job, ...]
    queues: tuple[Queue, ...] = ()
    quotas: tuple[Quota, ...] = ()
    volatile_lifetime: float = math.inf
    """Seconds that a volatile cluster node lasts, as observed: seconds of all of them by how many have vanished."""
