"""What happened to a job, round by round, put together from what its rendezvous record and Leases said and when.

Pure: fed with parsed records and Leases and the time of their arrival, by one clock of the feeder's; reads nothing.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from elasticjob_rendezvous.round.record import Phase

if TYPE_CHECKING:
    from elasticjob_rendezvous.round.lease import Progress, SlotLease
    from elasticjob_rendezvous.round.record import Member, Reason, Record


@dataclasses.dataclass
class Round:
    """One membership of the job, and when it got how far."""

    number: int
    reason: Reason
    opened: float
    sealed: float | None = None
    members: tuple[Member, ...] = ()
    trained: float | None = None
    """When its first training step was reported."""
    first_step: int = 0
    """That step's number: one more than the checkpoint that it resumed from."""
    last_step: int = 0
    loss: float | None = None
    arrived: dict[int, float] = dataclasses.field(default_factory=dict)
    """By slot, when its Lease first said that a process has arrived for this round; who parks, before it opens."""

    @property
    def size(self) -> int:
        """Nodes; 0 while it is open."""
        return len(self.members)

    @property
    def slots(self) -> frozenset[int]:
        return frozenset(member.slot for member in self.members)

    @property
    def seconds_to_train(self) -> float | None:
        """From its opening to its first training step."""
        return None if self.trained is None else self.trained - self.opened


@dataclasses.dataclass
class History:
    """All rounds of one job.

    Invariant: round numbers only grow, and a round's membership, once sealed, never changes; anything else is a fault
    of the product and raises ``AssertionError``.
    """

    rounds: list[Round] = dataclasses.field(default_factory=list)
    record: Record | None = None
    _early: list[tuple[SlotLease, float]] = dataclasses.field(default_factory=list)
    """Leases that told of a round before its record did: parked newcomers, and because the two are watched apart."""

    @property
    def current(self) -> Round:
        return self.rounds[-1]

    def of(self, number: int) -> Round | None:
        return next((one for one in self.rounds if one.number == number), None)

    def see_record(self, record: Record, at: float) -> None:
        self.record = record
        if not self.rounds or record.number > self.current.number:
            self.rounds.append(Round(number=record.number, reason=record.reason, opened=at))
            early, self._early = self._early, []
            for lease, seen_at in early:
                self.see_lease(lease, seen_at)
        current = self.current
        if record.number != current.number:
            raise AssertionError(f"round {record.number} after round {current.number}")
        current.reason = record.reason  # an open round may be amended
        if record.phase is Phase.OPEN or record.sealed != record.number:
            return
        if current.sealed is None:
            current.sealed, current.members = at, record.members
        if current.members != record.members:
            raise AssertionError(f"round {record.number} had members {current.members}, now {record.members}")

    def see_lease(self, lease: SlotLease, at: float) -> None:
        newest = self.rounds[-1].number if self.rounds else 0
        if max(lease.arrived, lease.progress.round if lease.progress else 0) > newest:
            self._early.append((lease, at))
        if arrived := self.of(lease.arrived):
            arrived.arrived.setdefault(lease.slot, at)
        if lease.progress and lease.progress.step:
            self._see_step(lease.progress, at)

    def _see_step(self, progress: Progress, at: float) -> None:
        trained = self.of(progress.round)
        if trained is None:
            return
        if trained.trained is None:
            trained.trained, trained.first_step = max(at, trained.opened), progress.step
        if progress.step > trained.last_step:
            trained.last_step, trained.loss = progress.step, progress.loss
