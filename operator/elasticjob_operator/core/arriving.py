"""A round is open: who is waited for follows what happens to the pods, and the spec, until it is sealed."""

from elasticjob_operator.core import reforming
from elasticjob_operator.core.situation import Situation, Step
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Phase, Reason, Record

_CONSEQUENCES = frozenset({Reason.WORKERS_FAILED, Reason.PEER_SILENT})
"""What the survivors of a lost pod take for the reason, before they can know the real one."""


def step(situation: Situation) -> Step | None:
    """Amend the open round; never a new number, so whoever has arrived stays arrived."""
    record = situation.record
    if record.phase is not Phase.OPEN:
        return None
    reason = _reason(situation)
    changed = changing.amended(
        record,
        reason=reason,
        plan=situation.target,
        absent=_absent(situation, starts=_starts(reason)),
        suspects=record.suspects | reforming.leaving(situation),
    )
    if changed != record:
        return Step(changed)
    if not record.plan:
        return None
    remaining = situation.spec.newcomer_timeout - situation.round_age
    return Step(wake_after=remaining) if remaining > 0 else None


def first_start(record: Record) -> bool:
    """Whether nobody has trained yet, or since the job was suspended: then a pod that is missing is waited for."""
    return record.phase is Phase.OPEN and _starts(record.reason)


def _starts(reason: Reason) -> bool:
    return reason in (Reason.STARTED, Reason.RESUMED)


def _reason(situation: Situation) -> Reason:
    record = situation.record
    if not situation.target and record.reason is not Reason.STATE_LOST:
        return Reason.SUSPENDED
    if record.reason is Reason.SUSPENDED:
        return Reason.RESUMED if record.sealed else Reason.STARTED
    lost = record.reason in _CONSEQUENCES and situation.observed.lost(record)
    return Reason.POD_LOST if lost else record.reason


def _absent(situation: Situation, *, starts: bool) -> frozenset[int]:
    """Who is not waited for: nobody who stands still waits for pods that are not there yet, but a start does."""
    record, plan = situation.record, situation.target
    absent = record.absent
    if record.plan and not starts:
        absent |= (plan - record.plan) | {slot for slot in plan if slot not in situation.observed.live}
    arrived = situation.observed.arrived(plan, record.number)
    late = situation.round_age >= situation.spec.newcomer_timeout and len(arrived) >= situation.spec.min_nodes
    return (absent | (plan - arrived) if late else absent) & plan


def missing(situation: Situation) -> frozenset[int]:
    """Planned slots that are neither in the running round nor parked for the next one."""
    record = situation.record
    return record.plan - record.member_slots - situation.observed.parked(record)
