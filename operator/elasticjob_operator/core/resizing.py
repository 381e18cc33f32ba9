"""Changing the size of a job that trains: announce, wait for newcomers, ask for a checkpoint, then one new round.

Training goes on until everything is ready. Each step is read off the round itself, so whoever is interrupted goes on
where it stopped, and a spec that changes meanwhile only changes where the steps lead. Replacements of lost pods join by
the same steps. Nothing here happens once a member has finished.
"""

from elasticjob_operator.core.observed import Observed
from elasticjob_operator.core.situation import Situation, Step
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Notice, Phase, Reason, Record


def step(situation: Situation) -> Step | None:
    """The next step from the present size to the wanted one."""
    record = situation.record
    if record.phase is not Phase.SEALED:
        return None
    announced = situation.target | (record.plan & record.member_slots)
    told = changing.amended(
        record,
        plan=announced,
        absent=record.absent | (announced - record.plan),
        min_nodes=situation.spec.min_nodes,
    )
    if told != record:
        return Step(told)
    if not _due(situation):
        return _wait(situation)
    if situation.spec.checkpoint_grace == 0 or _answered(situation):
        return Step(_opened(situation))
    if record.notice is None:
        return Step(changing.noticed(record, _notice(situation)))
    return Step(wake_after=max(1, record.notice.grace_seconds - situation.since(situation.status.notice_time)))


def acknowledged(observed: Observed, record: Record) -> bool:
    """Whether rank 0 has answered the notice with a checkpoint."""
    first = record.members[0]
    lease = observed.lease(first.slot)
    return record.notice is not None and lease.nonce == first.nonce and lease.checkpointed == record.notice.id


def _due(situation: Situation) -> bool:
    """Whether a new round would change the membership as it is wanted: members leave, or all newcomers wait."""
    record = situation.record
    parked = situation.observed.parked(record)
    complete = parked >= situation.target - record.member_slots
    return bool(record.member_slots - situation.target) or bool(parked and (complete or _patience_left(situation) <= 0))


def _patience_left(situation: Situation) -> int:
    return situation.spec.newcomer_timeout - situation.since(situation.status.waiting_since)


def _wait(situation: Situation) -> Step | None:
    if situation.record.notice is not None:
        return Step(changing.noticed(situation.record, None))  # what it was for is over
    waiting = situation.observed.parked(situation.record)
    return Step(wake_after=max(1, _patience_left(situation))) if waiting else None


def _answered(situation: Situation) -> bool:
    record = situation.record
    if record.notice is None:
        return False
    late = situation.since(situation.status.notice_time) >= record.notice.grace_seconds
    return late or acknowledged(situation.observed, record)


def _notice(situation: Situation) -> Notice:
    """Round and time make it another notice than any before: an old answer must not count for it."""
    return Notice(f"{situation.record.number}.{situation.now}", situation.spec.checkpoint_grace)


def _opened(situation: Situation) -> Record:
    record, plan = situation.record, situation.target
    resized = situation.status.resizing is not None or plan != record.plan or situation.status.planned != len(plan)
    reason = Reason.RESIZED if resized else Reason.NODE_JOINED
    return changing.opened(
        record,
        reason if plan else Reason.SUSPENDED,
        plan=plan,
        absent=plan - record.member_slots - situation.observed.parked(record),
        min_nodes=situation.spec.min_nodes,
    )
