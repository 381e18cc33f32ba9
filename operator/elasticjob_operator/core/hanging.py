"""A round that trains and gets nowhere: its workers' stacks into their logs, then the group starts again.

Progress is what rank 0 reports. A job that has a ``progressDeadlineSeconds`` says thereby that it reports; the time
counts from the round's seal too, so a group that hangs at its start is seen as well.
"""

import dataclasses

from elasticjob_operator.api import status
from elasticjob_operator.core import describing, noticing, pausing, reforming
from elasticjob_operator.core.situation import Situation, Step
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Notice, Phase, Reason, Record

DUMP_SECONDS = 5
"""Between the wish for stacks and the round that stops their owners: agents look five times a second."""


def step(situation: Situation) -> Step | None:
    """First the stacks, then a round for the reason that the workers failed: so it counts."""
    record, seconds = situation.record, left(situation)
    if seconds is None or seconds > 0:
        return None
    if record.notice is None or noticing.purpose(record.notice) != noticing.STACKS:
        found = noticing.notice(situation, noticing.STACKS)
        return Step(changing.noticed(record, Notice(found.id, DUMP_SECONDS)))
    wait = noticing.left(situation)
    return Step(wake_after=wait) if wait > 0 else Step(reforming.reopened(situation, Reason.WORKERS_FAILED, ()))


def left(situation: Situation) -> int | None:
    """Seconds until the round counts as hung; ``None`` where nothing says when it does."""
    deadline = situation.spec.failure_policy.progress_deadline
    if deadline is None or situation.record.phase is not Phase.SEALED or not situation.spec.rendezvous.told:
        return None
    pause = pausing.MOST_SECONDS if situation.paused_until is not None else 0
    return deadline + pause - situation.since(seen(situation))


def seen(situation: Situation) -> int | None:
    """When training was last seen to get on: a new step, or a round that was just sealed."""
    known, record = situation.status, situation.record
    if not record.running:
        return None
    moved = situation.observed.progress not in (None, known.progress)
    same = (known.round, known.round_phase) == (record.number, record.phase.value) and not moved
    return situation.noted(known.last_progress_time, same=same)


def failure(situation: Situation, before: Record | None) -> status.Failure | None:
    """The last failure: the hang, if the round that was just opened ends one."""
    last, record = situation.counters.last_failure, situation.record
    hung = before is not None and before.notice is not None and noticing.purpose(before.notice) == noticing.STACKS
    if not hung or (record.phase, record.reason) != (Phase.OPEN, Reason.WORKERS_FAILED):
        return last
    deadline = situation.spec.failure_policy.progress_deadline
    message = f"no progress for {deadline} s; the workers' stacks are in their pods' logs"
    found = status.Failure(slot=-1, exit_code=0, message=message, time=situation.now, reason=describing.NO_PROGRESS)
    return dataclasses.replace(found, round=record.sealed)
