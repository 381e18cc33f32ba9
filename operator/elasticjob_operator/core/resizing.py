"""Changing the size of a job that trains: announce, wait for newcomers, ask for a checkpoint, then one new round.

Training goes on until everything is ready. Where a resize stands is read off the round itself, so who is interrupted
goes on where it stopped, and a spec that changes meanwhile only changes where the steps lead. Replacements of lost pods
join by the same steps. Nothing here happens once a member has finished.
"""

import enum

from elasticjob_operator.core import leaving, noticing
from elasticjob_operator.core.situation import Situation, Step
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Phase, Reason, Record


class Stage(enum.Enum):
    """Where a resize stands. The values are the reasons of the condition ``Resizing``."""

    STEADY = "AsWanted"
    ANNOUNCE = "Announcing"
    NEWCOMERS = "WaitingForNewcomers"
    COOL_DOWN = "CoolingDown"
    CHECKPOINT = "WaitingForCheckpoint"
    REFORM = "Reforming"


def stage(situation: Situation) -> Stage:
    """Where the way from the present size to the wanted one stands."""
    record = situation.record
    if record.phase is not Phase.SEALED:
        return Stage.REFORM if record.phase is Phase.OPEN else Stage.STEADY
    if _announced(situation) != record.plan:
        return Stage.ANNOUNCE
    shrinks = bool(record.member_slots - situation.target)
    if not shrinks and not _newcomers_due(situation):
        return Stage.STEADY if record.plan <= record.member_slots else Stage.NEWCOMERS
    if not shrinks and _cool_down(situation) > 0:
        return Stage.COOL_DOWN
    asks = noticing.asks(situation)
    return Stage.CHECKPOINT if asks and not (_asked(record) and noticing.answered(situation)) else Stage.REFORM


def step(situation: Situation) -> Step | None:
    """The next step from the present size to the wanted one."""
    record = situation.record
    if record.phase is not Phase.SEALED:
        return None
    match stage(situation):
        case Stage.ANNOUNCE:
            plan = _announced(situation)
            return Step(changing.amended(record, plan=plan, absent=record.absent | (plan - record.plan)))
        case Stage.CHECKPOINT if not _asked(record):
            return Step(changing.noticed(record, noticing.notice(situation)))
        case Stage.CHECKPOINT:
            return Step(wake_after=max(1, noticing.left(situation)))
        case Stage.REFORM:
            return Step(_opened(situation))
        case at:
            return _wait(situation, at)


def _announced(situation: Situation) -> frozenset[int]:
    """The plan to wait with: members that are to leave stay in it until the round that is without them."""
    return situation.target | (situation.record.plan & situation.record.member_slots)


def _newcomers_due(situation: Situation) -> bool:
    """Whether a new round would take newcomers in: all that are awaited, or after their time those that are ready.

    Fewer than all are taken in only if more nodes than now are of an allowed size.
    """
    record, parked = situation.record, situation.observed.parked(situation.record)
    if not parked or parked >= situation.target - record.member_slots:
        return bool(parked)
    more = record.fitting(len(record.members) + len(parked)) > len(record.members)
    return more and _patience_left(situation) <= 0


def _patience_left(situation: Situation) -> int:
    return situation.spec.newcomer_timeout - situation.since(situation.status.waiting_since)


def _cool_down(situation: Situation) -> int:
    """Seconds for which the group is left alone after its last round; who comes meanwhile is taken in together."""
    return situation.spec.cooldown - situation.round_age


def _wait(situation: Situation, at: Stage) -> Step | None:
    if situation.record.notice is not None and not any(leaving.restless(situation)):
        return Step(changing.noticed(situation.record, None))  # what it was for is over
    if at is Stage.COOL_DOWN:
        return Step(wake_after=_cool_down(situation))
    left = _patience_left(situation) if situation.observed.parked(situation.record) else 0
    return Step(wake_after=left) if left > 0 else None


def _asked(record: Record) -> bool:
    """Whether the round's notice is a resize's own: another purpose's may have been answered long ago."""
    return record.notice is not None and noticing.purpose(record.notice) == ""


def _opened(situation: Situation) -> Record:
    record, plan = situation.record, situation.target
    resized = situation.status.resizing is not None or plan != record.plan or situation.status.planned != len(plan)
    reason = Reason.RESIZED if resized else Reason.NODE_JOINED
    return changing.opened(
        record,
        reason if plan else Reason.SUSPENDED,
        plan=plan,
        absent=plan - record.member_slots - situation.observed.parked(record),
    )
