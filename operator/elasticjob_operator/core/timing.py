"""How long a job stands still for a new round, step by step, as the operator sees it: what is measured, not decided.

Five steps: *detect*, from a worker's failure (where it left a time), or a silent node's last sign of life, to the round
that answers it; *stop*, until every expected process has arrived; *form*, until the round is sealed; *restore*, until
the new processes have their state (where the script says so, else it is in the next one); *step*, until the first
training step is reported. Times are seconds of the caller's clock; an operator that starts in the middle of a round
tells nothing of it.
"""

import dataclasses

from elasticjob_operator.core.actions import Event
from elasticjob_operator.core.observed import Observed
from elasticjob_rendezvous.round.record import Phase, Reason, Record

STEPS = {
    "detect": "noticed",
    "stop": "all nodes there",
    "form": "round formed",
    "restore": "state restored",
    "step": "first step",
}
"""The steps in their order, and in words that fit whatever the round came after: a first one has nobody to stop."""

_RUNGS = {
    Reason.STARTED: "start",
    Reason.RESUMED: "start",
    Reason.STATE_LOST: "start",
    Reason.WORKERS_FAILED: "processes",
    Reason.AGENT_RESTARTED: "processes",
    Reason.NODE_JOINED: "pod",
    Reason.RESIZED: "resize",
}
"""What a round's reason is on the ladder; members that were lost are judged by what followed."""

RUNGS = ("start", "resize", "processes", "pod", "shrink", "wait")
"""``processes``: workers started again in the same pods. ``shrink``: the others went on. ``pod``: its successor joined.
``wait``: nobody could go on before the successor was there."""


@dataclasses.dataclass(frozen=True)
class Passage:
    """The way from one round to the next. A moment that was not reached yet is ``None``."""

    number: int
    before: int
    """Members of the round before."""
    opened: float
    planned: bool = True
    """Whether nodes are wanted: a job that is suspended, or waits for the autoscaler, recovers from nothing."""
    size: int = 0
    detected_in: float | None = None
    gathered: float | None = None
    sealed: float | None = None
    stepped: float | None = None
    restored_in: float | None = None


def advanced(known: Passage | None, observed: Observed, now: float, wall: float) -> Passage | None:
    """The passage with what is seen now. *wall* is the time since 1970, which is what a worker's failure has."""
    record = observed.round.record
    if record is None:
        return None
    planned = bool(record.plan)
    if known is None or known.number != record.number or not (known.planned and planned):
        if record.phase is not Phase.OPEN and known is None:
            return None
        before = known.size if known and known.size else len(record.members)
        known = Passage(record.number, before, now, planned, detected_in=_detected_in(observed, record, wall))
    if known.gathered is None and (record.running or _gathered(observed, record)):
        known = dataclasses.replace(known, gathered=now)
    if known.sealed is None and record.running:
        known = dataclasses.replace(known, sealed=now, size=len(record.members))
    progress = observed.progress
    if known.stepped is None and known.sealed and progress is not None and progress.round == record.number:
        known = dataclasses.replace(known, stepped=now, restored_in=progress.restored)
    return known


def over(passage: Passage | None) -> bool:
    """Whether the first step was seen."""
    return passage is not None and passage.stepped is not None


def rung(passage: Passage, record: Record) -> str:
    """How far up the recovery ladder the job had to go."""
    fewer = len(record.members) < passage.before
    return _RUNGS.get(record.reason) or ("shrink" if fewer else "wait")


def samples(passage: Passage) -> dict[str, float]:
    """Seconds of each step of a passage that is over."""
    moments = (passage.opened, passage.gathered, passage.sealed, passage.stepped)
    if None in moments:
        return {}
    opened, gathered, sealed, stepped = (moment or 0.0 for moment in moments)
    restored = None if passage.restored_in is None else min(passage.restored_in, stepped - sealed)
    found = {
        "detect": passage.detected_in,
        "stop": gathered - opened,
        "form": sealed - gathered,
        "restore": restored,
        "step": stepped - sealed - (restored or 0.0),
    }
    return {step: seconds for step, seconds in found.items() if seconds is not None}


def event(passage: Passage, record: Record) -> Event:
    """The passage in words."""
    found = samples(passage)
    steps = ", ".join(f"{word} {found[step]:.1f} s" for step, word in STEPS.items() if step in found)
    total = f"{sum(found.values()):.1f} s"
    return Event("RoundTrains", f"round {record.number} trains {total} after {record.reason.value}: {steps}")


def _gathered(observed: Observed, record: Record) -> bool:
    expected = record.plan - record.absent
    return bool(expected) and all(observed.lease(slot).arrived == record.number for slot in expected)


def _detected_in(observed: Observed, record: Record, wall: float) -> float | None:
    """Seconds since the first worker of the last round failed, or the first silent node renewed its Lease.

    Their clocks are others': never less than none.
    """
    if record.reason is Reason.PEER_SILENT:
        silent = [slot for slot, lease in observed.leases.items() if lease.nonce in record.suspects]
        heard = [observed.renewed[slot] for slot in silent if slot in observed.renewed]
        return max(0.0, wall - min(heard)) if heard else None
    failures = [lease.failure for lease in observed.leases.values() if lease.failure]
    times = [failure.time for failure in failures if failure.round == record.sealed and failure.time]
    return max(0.0, wall - min(times)) if times and record.reason is Reason.WORKERS_FAILED else None
