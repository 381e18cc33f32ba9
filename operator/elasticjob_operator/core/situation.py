"""What each policy is given: a readable round, and everything around it."""

import dataclasses
import functools

from elasticjob_operator.api.spec import Spec
from elasticjob_operator.api.status import Status
from elasticjob_operator.core import pausing, plans, sizing
from elasticjob_operator.core.counting import Counters
from elasticjob_operator.core.observed import Observed
from elasticjob_operator.core.sizing import Size
from elasticjob_rendezvous.round.record import Record


@dataclasses.dataclass(frozen=True)
class Situation:
    """One job with a round that could be read, at one moment."""

    observed: Observed
    spec: Spec
    record: Record
    counters: Counters
    now: int

    @property
    def status(self) -> Status:
        """What was known before."""
        return self.observed.job.status

    @functools.cached_property
    def size(self) -> Size:
        """How many nodes the job is brought to, and why; none while it is suspended."""
        return sizing.wanted(self.spec, self.observed.allocation, planned=self.status.planned)

    @property
    def wanted(self) -> int:
        """How many nodes the job is brought to."""
        return self.size.nodes

    @functools.cached_property
    def target(self) -> frozenset[int]:
        """The plan that the wanted size asks for."""
        return plans.target(
            self.observed, self.record, wanted=self.wanted, most=self.spec.max_nodes, kept=plans.kept(self.spec)
        )

    @functools.cached_property
    def paused_until(self) -> int | None:
        """When the next round begins, where the agents wait for that after failure upon failure."""
        return pausing.until(self.observed, self.record)

    @functools.cached_property
    def finished(self) -> frozenset[int]:
        """Slots whose work in the running round is done, so that they need no pod any more."""
        return frozenset(m.slot for m in self.observed.finished(self.record)) if self.record.running else frozenset()

    def since(self, moment: int | None) -> int:
        """Seconds since a moment; one that was not noted yet, or lies ahead (another clock wrote it), is now."""
        return max(0, self.now - moment) if moment is not None else 0

    def noted(self, moment: int | None, *, same: bool = True) -> int:
        """The moment as noted before, if that was of the *same* thing; what is seen for the first time is now."""
        return moment if same and moment is not None else self.now

    @functools.cached_property
    def uncounted(self) -> frozenset[int]:
        """Slots of lost and failed pods that no status counts yet. Until one does, all that tells of them is that they
        are named where they are, by a pod's object or a Lease, and that the slot is planned.
        """
        fresh, observed = self.counters.fresh, self.observed
        ending = {pod.slot for pod in observed.pods if pod.uid in fresh}
        return frozenset(ending | {slot for slot, lease in observed.leases.items() if {lease.pod, lease.left} & fresh})

    @property
    def known_round(self) -> bool:
        """Whether the status tells of this round in this phase, and for nodes, if there are any now."""
        same = self.status.round == self.record.number and self.status.round_phase == self.record.phase.value
        return same and (self.status.planned > 0 or not self.record.plan)

    @property
    def round_age(self) -> int:
        """Seconds since this round was first seen in this phase, or since the job was resumed in it."""
        return self.since(self.status.round_time) if self.known_round else 0


@dataclasses.dataclass(frozen=True)
class Step:
    """One policy's answer: the record to write, or when to look again, or both not."""

    record: Record | None = None
    wake_after: float | None = None
