"""Records and Leases for tests of what looks at them, with only what matters to the test spelled out."""

from __future__ import annotations

from elasticjob_rendezvous.round.lease import Progress, SlotLease
from elasticjob_rendezvous.round.record import Member, Phase, Reason, Record

JOB = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


def member(slot: int, incarnation: int = 1) -> Member:
    """The process of *slot*; a later *incarnation* is another process."""
    return Member(slot, f"{slot:04x}{incarnation:04x}")


def open_record(number: int, reason: Reason = Reason.RESIZED) -> Record:
    return Record(job=JOB, number=number, phase=Phase.OPEN, reason=reason)


def sealed_record(
    number: int, *members: Member, reason: Reason = Reason.RESIZED, phase: Phase = Phase.SEALED
) -> Record:
    return Record(
        job=JOB,
        number=number,
        phase=phase,
        reason=reason,
        sealed=number,
        members=members or (member(0), member(1)),
        store="10.0.0.1:4000",
    )


def lease(slot: int, *, arrived: int = 0, round_: int = 0, step: int = 0) -> SlotLease:
    progress = Progress(round=round_, step=step, samples=step * 64, loss=0.5) if round_ else None
    return SlotLease(slot=slot, pod="pod", nonce=member(slot).nonce, arrived=arrived, progress=progress)
