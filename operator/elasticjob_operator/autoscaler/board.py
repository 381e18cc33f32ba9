"""Cluster nodes while pods are being put on them: exact, one number of free accelerators each.

Filling packs: one cluster node if the pods fit on one (the tightest), else one topology domain, else wherever there
is most.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from elasticjob_operator.autoscaler import snapshot

Pods = dict[str, int]
"""Pods of one job by cluster node."""


class Board:
    """Free accelerators by cluster node. `put` and `lift` undo each other, so a what-if leaves no trace."""

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self.nodes = {node.name: node for node in snap.cluster_nodes}
        self.free = {node.name: max(node.free, 0) for node in snap.cluster_nodes}
        sets = {job.candidates for job in snap.jobs}
        self._wanted = {node: sum(names is None or node in names for names in sets) for node in self.free}
        self._open = {name for name, free in self.free.items() if free > 0}
        self._capacities: dict[tuple[frozenset[str] | None, str, int], list[int]] = {}
        self._hosts: dict[tuple[frozenset[str] | None, str], tuple[frozenset[str], frozenset[str]]] = {}

    def put(self, pods: Pods, each: int) -> None:
        """Pods of `each` accelerators take their room."""
        for name, count in pods.items():
            self._set(name, self.free[name] - count * each)

    def lift(self, pods: Pods, each: int) -> None:
        """They give it back."""
        for name, count in pods.items():
            self._set(name, self.free[name] + count * each)

    def _set(self, name: str, free: int) -> None:
        self.free[name] = free
        if free > 0:
            self._open.add(name)
        else:
            self._open.discard(name)

    def hosts(self, job: snapshot.Job, kind: str) -> tuple[frozenset[str], frozenset[str]]:
        """Where new pods of this job may go: stable and volatile cluster nodes."""
        key = job.candidates, kind
        if key not in self._hosts:
            able = [node for node in self.nodes.values() if node.schedulable and node.kind == kind]
            able = [node for node in able if job.candidates is None or node.name in job.candidates]
            stable = frozenset(node.name for node in able if not node.volatile)
            self._hosts[key] = stable, frozenset(node.name for node in able) - stable
        return self._hosts[key]

    def capacities(self, job: snapshot.Job, kind: str) -> list[int]:
        """Pods of this job that the empty cluster nodes take, the largest first."""
        key = job.candidates, kind, job.accelerators
        if key not in self._capacities:
            each = job.accelerators
            free = (max(self.nodes[name].free, 0) // each for names in self.hosts(job, kind) for name in names)
            self._capacities[key] = sorted(free, reverse=True)
        return self._capacities[key]

    def largest(self, job: snapshot.Job, kind: str) -> int:
        """Pods of this job that the emptiest cluster node still takes."""
        stable, volatile = self.hosts(job, kind)
        free = (self.free[name] for name in self._open if name in stable or name in volatile)
        return max(free, default=0) // job.accelerators

    def fill(self, names: frozenset[str], each: int, pods: int, near: Collection[str]) -> Pods:
        """Where to put so many pods, as few as fit; nothing is taken yet. `near`: cluster nodes the job is on, or
        was.
        """
        room = {name: self.free[name] // each for name in self._open if name in names and self.free[name] >= each}
        if not room or pods < 1:
            return {}
        close = {self.nodes[name].domain for name in near if name in self.nodes}

        def tight(name: str) -> tuple[bool, int, bool, int, str]:
            return self.nodes[name].domain not in close, self._wanted[name], name not in near, room[name], name

        single = min((name for name, fits in room.items() if fits >= pods), key=tight, default=None)
        if single is not None:
            return {single: pods}
        return self._spread(self._within(room, pods, close), pods)

    def _within(self, room: Pods, pods: int, close: Collection[str]) -> Pods:
        """The room of the tightest domain that holds them all, one the job is in already if possible; else all room."""
        sums: dict[str, int] = collections.Counter()
        for name, fits in room.items():
            sums[self.nodes[name].domain] += fits
        fitting = [(domain not in close, total, domain) for domain, total in sums.items() if total >= pods]
        if not fitting:
            return room
        chosen = min(fitting)[2]
        return {name: fits for name, fits in room.items() if self.nodes[name].domain == chosen}

    def _spread(self, room: Pods, pods: int) -> Pods:
        """The emptiest first, and the rest where it fits tightest: the fewest cluster nodes. Above all those that few
        kinds of jobs can use, so that the others' only places are left to them.
        """
        out: Pods = {}
        emptiest = sorted(room, key=lambda name: (self._wanted[name], -room[name], name))
        for name in emptiest:
            rest = pods - sum(out.values())
            if rest <= room[name]:
                tightest = min((n for n in emptiest if n not in out and room[n] >= rest), key=lambda n: (room[n], n))
                out[tightest] = rest
                break
            out[name] = room[name]
        return out
