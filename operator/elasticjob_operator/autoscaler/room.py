"""How much is left while sizes are chosen: accelerators counted by pool, not yet by cluster node.

A pool is the cluster nodes that no job can tell apart: one kind, stable or volatile, wanted by the same jobs.
Counting is what makes a decision cheap; whether pods of different sizes really fit is for `placing.py` to find out.
"""

from __future__ import annotations

import collections
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from elasticjob_operator.autoscaler import drafts, settings, snapshot

UNLIMITED = 1 << 30
"""Room for pods that need no accelerator: their CPUs are the Kubernetes scheduler's affair, and `Job.ceiling` tells
us."""
Key = tuple[str, bool, int]


class Pool:
    """Accelerators that are left in one pool; and pods of each size, if they are the only ones there.

    Eight cluster nodes with three accelerators each hold eight pods of two, not twelve.
    """

    __slots__ = ("_hosts", "_whole", "free")

    def __init__(self) -> None:
        self.free = 0
        self._hosts: list[int] = []
        self._whole: dict[int, int] = {}

    def add(self, free: int) -> None:
        """One more cluster node."""
        self.free += free
        self._hosts.append(free)

    def pods(self, each: int) -> int:
        """How many more pods of *each* accelerators."""
        whole = self._whole.get(each)
        if whole is None:
            whole = self._whole[each] = sum(free // each for free in self._hosts)
        return min(whole, self.free // each)

    def take(self, each: int, pods: int) -> None:
        """As many as it was asked for."""
        self.free -= pods * each
        self._whole[each] -= pods

    def fluid(self, each: int) -> bool:
        """Whether accelerators alone say how many pods fit."""
        return self.pods(each) == self.free // each


class Room:
    """What is free, or may be given to somebody else: all but the pods of held jobs. Taking only lowers it."""

    def __init__(self, snap: snapshot.Snapshot, rules: settings.Settings) -> None:
        self._sets = {job.candidates: number for number, job in enumerate(snap.jobs)}
        self._free = _pools(snap, self._sets)
        self._own = _cordoned(snap)
        self.any_volatile = any(node.volatile for node in snap.cluster_nodes)
        self._largest = _volatile(snap)
        self._present = _present(snap) if self.any_volatile and not rules.moves else {}
        self.lifetime = snap.volatile_lifetime if self.any_volatile else math.inf
        self._found: dict[tuple[frozenset[str] | None, str, bool], list[Pool]] = {}

    def pods(self, draft: drafts.Draft, kind: str, *, volatile: bool) -> int:
        """How many more pods of this job fit, on stable or on volatile cluster nodes."""
        each = draft.job.accelerators
        if not each:
            return UNLIMITED
        if volatile and not self.any_volatile:
            return 0
        keys = self._pools(draft, kind, volatile=volatile)
        shared = keys[0].pods(each) if len(keys) == 1 else sum(pool.pods(each) for pool in keys)
        return shared if not self._own else shared + self._own.get((draft.job.name, kind, volatile), 0)

    def volatile_hosts(self, kind: str, each: int) -> int:
        """Pods that the largest volatile cluster node of this kind holds; 0 when there is none."""
        return self._largest.get(kind, 0) // each

    def fixed(self, draft: drafts.Draft, kind: str) -> int:
        """Pods of its minimum that are on volatile cluster nodes for want of stable ones, and stay: nothing moves."""
        loose = self._present.get((draft.job.name, kind), 0)
        firm = sum(placed.pods for placed in draft.job.placement) - loose
        return max(min(loose, draft.minimum - firm), 0)

    def take(self, draft: drafts.Draft, pods: int, *, volatile: bool) -> None:
        """Count so many pods as placed there. The caller has asked `pods` first."""
        each = draft.job.accelerators
        if not each:
            return
        own = draft.job.name, draft.kind, volatile
        if self._own and own in self._own:
            part = min(pods, self._own[own])
            self._own[own] -= part
            pods -= part
        for pool in self._pools(draft, draft.kind, volatile=volatile):
            part = min(pods, pool.pods(each))
            pool.take(each, part)
            pods -= part
            if not pods:
                return

    def only(self, draft: drafts.Draft) -> Pool | None:
        """The pool that all its pods come from, where there is but one: then counting is one subtraction."""
        each = draft.job.accelerators
        if self.any_volatile or not each or (draft.job.name, draft.kind, False) in self._own:
            return None
        pools = self._pools(draft, draft.kind, volatile=False)
        return pools[0] if len(pools) == 1 and pools[0].fluid(each) else None

    def _pools(self, draft: drafts.Draft, kind: str, *, volatile: bool) -> list[Pool]:
        """Those the fewest jobs can use come first, so that the others' only places are left to them."""
        candidates = draft.job.candidates
        found = self._found.get((candidates, kind, volatile))
        if found is None:
            bit = 1 << self._sets[candidates]
            keys = [key for key in self._free if key[0] == kind and key[1] == volatile and key[2] & bit]
            found = [self._free[key] for key in sorted(keys, key=lambda key: (key[2].bit_count(), key))]
            self._found[candidates, kind, volatile] = found
        return found


def _pools(snap: snapshot.Snapshot, sets: dict[frozenset[str] | None, int]) -> dict[Key, Pool]:
    pools: dict[Key, Pool] = collections.defaultdict(Pool)
    held = occupied(job for job in snap.jobs if job.held)  # those stay exactly where they are: their room is nobody's
    for node in snap.cluster_nodes:
        free = node.free - held.get(node.name, 0)
        if node.schedulable and free > 0:
            wanted = sum(1 << number for names, number in sets.items() if names is None or node.name in names)
            pools[node.kind, node.volatile, wanted].add(free)
    return pools


def _volatile(snap: snapshot.Snapshot) -> dict[str, int]:
    largest: dict[str, int] = {}
    for node in snap.cluster_nodes:
        if node.volatile and node.schedulable:
            largest[node.kind] = max(largest.get(node.kind, 0), node.free)
    return largest


def _present(snap: snapshot.Snapshot) -> dict[tuple[str, str], int]:
    """Pods on volatile cluster nodes by job and kind."""
    nodes = {node.name: node for node in snap.cluster_nodes if node.volatile}
    present: dict[tuple[str, str], int] = collections.Counter()
    for job in snap.jobs:
        for placed in job.placement:
            if (node := nodes.get(placed.cluster_node)) is not None:
                present[job.name, node.kind] += max(placed.pods, 0)
    return present


def occupied(jobs: Iterable[snapshot.Job]) -> dict[str, int]:
    """Accelerators of these jobs' pods by cluster node."""
    there: dict[str, int] = collections.Counter()
    for job in jobs:
        for placed in job.placement:
            there[placed.cluster_node] += max(placed.pods, 0) * job.accelerators
    return there


def _cordoned(snap: snapshot.Snapshot) -> dict[tuple[str, str, bool], int]:
    """Pods on cordoned cluster nodes: room for the job that has them, and for nobody else."""
    nodes = {node.name: node for node in snap.cluster_nodes if not node.schedulable}
    own: dict[tuple[str, str, bool], int] = collections.Counter()
    for job in snap.jobs:
        for placed in job.placement:
            if (node := nodes.get(placed.cluster_node)) is not None:
                own[job.name, node.kind, node.volatile] += max(placed.pods, 0)
    return own
