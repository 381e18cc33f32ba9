"""All that was read of one job in one reconcile, as one frozen value.

The order of reading matters, and is the reader's promise: the round first, then the Leases, then the pods. So a holder
named in a Lease whose pod is not among the pods has really gone, and a member whose Lease says otherwise really left.
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping

from elasticjob_operator.api.allocation import Allocation
from elasticjob_operator.api.installation import STRICTEST, Installation
from elasticjob_operator.api.job import Job
from elasticjob_operator.core.cluster_nodes import ClusterNode
from elasticjob_operator.core.pods import Pod
from elasticjob_rendezvous.round.lease import Progress, SlotLease
from elasticjob_rendezvous.round.record import Member, Record


@dataclasses.dataclass(frozen=True)
class Round:
    """The job's ConfigMap. Missing: no ``version``. Unreadable: no ``record``, and ``error`` says why.

    ``newer``: it is unreadable only to this version of the operator.
    """

    record: Record | None = None
    version: str = ""
    error: str = ""
    newer: bool = False


@dataclasses.dataclass(frozen=True)
class Access:
    """Which of the objects that the pods need are there; ``slots`` are those that the Role names.

    ``place`` is the one where agents of torch's own backends meet (``core.places``).
    """

    account: bool = False
    role: bool = False
    role_version: str = ""
    slots: int = 0
    binding: bool = False
    network_policy: bool = False
    place: bool = False


@dataclasses.dataclass(frozen=True)
class Budget:
    """The job's PodDisruptionBudget. Missing: no ``version``."""

    version: str = ""
    least: int = 0


@dataclasses.dataclass(frozen=True)
class Observed:
    """One job and all its objects. ``access`` is ``None`` when it was not read this time.

    ``cluster_nodes`` are those that pods of the job are on, as the watch last told of them; ``budget`` is ``None`` when
    it was not read. ``taken`` are slots and numbers of pods that carry the job's labels and are not its own, but an
    earlier job's, say. ``etcd`` is the job's own, if it has one,
    ``run_over``: all pods have to start anew (``core.runs``).
    """

    job: Job
    round: Round = Round()
    leases: Mapping[int, SlotLease] = dataclasses.field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    access: Access | None = None
    taken: frozenset[tuple[int, int]] = frozenset()
    installation: Installation = STRICTEST
    etcd: Pod | None = None
    run_over: bool = False
    cluster_nodes: Mapping[str, ClusterNode] = dataclasses.field(default_factory=dict)
    budget: Budget | None = None
    renewed: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """When the Leases were last renewed, by their slots and their holders' clocks."""
    allocation: Allocation | None = None
    """What the autoscaler has given the job; None: there is no autoscaler."""

    @functools.cached_property
    def used(self) -> frozenset[tuple[int, int]]:
        """Slots and numbers in whose names pods are there."""
        return self.taken | {(pod.slot, pod.number) for pod in self.pods}

    @functools.cached_property
    def live(self) -> Mapping[int, tuple[Pod, ...]]:
        """Live pods by slot; of several the one that holds the slot's Lease comes first, then the oldest."""
        slots: dict[int, list[Pod]] = {}
        for pod in self.pods:
            if pod.live:
                slots.setdefault(pod.slot, []).append(pod)
        for slot, pods in slots.items():
            holder = self.lease(slot).pod
            pods.sort(key=lambda p: (p.uid != holder, p.created, p.number))
        return {slot: tuple(pods) for slot, pods in slots.items()}

    @functools.cached_property
    def by_uid(self) -> Mapping[str, Pod]:
        """Pods by UID, which is how a Lease names its holder's."""
        return {pod.uid: pod for pod in self.pods}

    def lease(self, slot: int) -> SlotLease:
        """The slot's Lease; one that is missing reads as free."""
        return self.leases.get(slot) or SlotLease(slot)

    def holder_lives(self, slot: int) -> bool:
        """Whether a process holds the slot whose pod is live."""
        lease = self.lease(slot)
        pod = self.by_uid.get(lease.pod)
        return not lease.free and pod is not None and pod.live

    def arrived(self, slots: Iterable[int], number: int) -> frozenset[int]:
        """Those of *slots* whose living processes have arrived for round *number*."""
        return frozenset(s for s in slots if self.holder_lives(s) and self.lease(s).arrived == number)

    def has_finished(self, member: Member, number: int) -> bool:
        """Whether this process has recorded that its work of this round is done."""
        lease = self.lease(member.slot)
        return lease.nonce == member.nonce and lease.finished == number

    def finished(self, record: Record) -> tuple[Member, ...]:
        """Members of the last sealed round that have recorded that their work of it is done."""
        return tuple(m for m in record.members if self.has_finished(m, record.sealed))

    def lost(self, record: Record) -> tuple[Member, ...]:
        """Members of the last sealed round that are gone (or are going) without having finished.

        A member whose slot a living successor holds is not among them: the successor asks for a round by itself.
        """
        return tuple(
            m for m in record.members if not self.holder_lives(m.slot) and not self.has_finished(m, record.sealed)
        )

    def ending(self, member: Member) -> bool:
        """Whether the member still runs, in a pod that is being deleted."""
        lease = self.lease(member.slot)
        pod = self.by_uid.get(lease.pod)
        return lease.nonce == member.nonce and pod is not None and pod.deleting and not pod.terminal

    def parked(self, record: Record) -> frozenset[int]:
        """Planned slots outside of the sealed round whose processes wait for the next one."""
        return self.arrived(record.plan - record.member_slots, record.number + 1)

    @functools.cached_property
    def progress(self) -> Progress | None:
        """The last report: of the newest round, since a restart from a checkpoint goes back in steps."""
        reports = [lease.progress for lease in self.leases.values() if lease.progress]
        return max(reports, key=lambda p: (p.round, p.step), default=None)

    @property
    def highest_seen(self) -> int:
        """No round number above this one was ever seen, as far as anything that is left can tell."""
        record = self.round.record
        seen = max((lease.seen for lease in self.leases.values()), default=0)
        return max(seen, self.job.status.round, record.number if record else 0)
