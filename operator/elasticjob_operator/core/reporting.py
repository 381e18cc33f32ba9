"""The new status: what is known now, with the moments that later decisions are measured from.

A moment is noted when the operator first sees what it belongs to, so a lost status write only makes a wait longer.
"""

import dataclasses

from elasticjob_operator.api import conditions, names, status
from elasticjob_operator.api.allocation import UNDECIDED, Allocation
from elasticjob_operator.core import avoiding, closing, hanging, sizing, straggling
from elasticjob_operator.core.observed import Observed
from elasticjob_operator.core.situation import Situation
from elasticjob_operator.core.verdict import Verdict
from elasticjob_rendezvous.round.record import Phase, Record


def moments(situation: Situation, before: Record | None) -> status.Status:
    """The status with all that can be told from the round alone. *before* is the record that was read."""
    old, record, counters = situation.status, situation.record, situation.counters
    resize = _resize(situation)
    ending = _ending(situation)
    trains = record.running and situation.paused_until is None
    return dataclasses.replace(
        old,
        observed_generation=situation.observed.job.generation,
        selector=f"{names.selector(situation.observed.job.name)},{names.SLOT_LABEL}",
        nodes=len(record.member_slots & record.plan) if trains else 0,
        wanted=situation.wanted,
        planned=len(record.plan),
        round=record.number,
        round_reason=record.reason.value,
        round_phase=record.phase.value,
        round_time=situation.noted(situation.status.round_time, same=situation.known_round),
        failures=counters.failures,
        infrastructure=counters.infrastructure,
        failed_rounds=counters.failed_rounds,
        failed_pods=counters.failed_pods,
        disruptions=counters.disruptions,
        restarts=old.restarts + situation.observed.run_over,
        counted=counters.counted,
        last_failure=hanging.failure(situation, before),
        last_progress_time=hanging.seen(situation),
        refilled=counters.refilled,
        bad_nodes=avoiding.remembered(situation),
        slow=straggling.remembered(situation)[:64],
        resizes=old.resizes + _changed_size(situation),
        last_resize=resize,
        progress=situation.observed.progress or old.progress,
        progress_time=_progress_time(situation.observed),
        allocation=_allocation(situation),
        start_time=_start_time(situation),
        waiting_since=_waiting_since(situation),
        notice_time=_notice_time(situation, before),
        result=record.result.value,
        end_reason=ending.reason,
        end_message=ending.message[: conditions.MAX_MESSAGE],
    )


def _ending(situation: Situation) -> Verdict:
    """Why the job has ended or is about to: decided once, but that finished work is a success after all."""
    if situation.record.phase is Phase.CLOSED:
        return closing.told(situation)
    known = Verdict(situation.status.end_reason, situation.status.end_message)
    return known if known.reason else closing.failed(situation) or known


def _start_time(situation: Situation) -> int | None:
    """Since when the job has run: anew each time it is resumed, as Kubernetes' own Jobs have it."""
    if not situation.record.plan and situation.record.phase is Phase.OPEN:
        return None
    return situation.noted(situation.status.start_time)


def _resize(situation: Situation) -> status.Resize | None:
    """The last resize: begun when the plan's size changes, over when every slot of it trains or none is wanted."""
    old, record = situation.status, situation.record
    resize = old.last_resize
    if _changed_size(situation):
        size = situation.size
        resize = status.Resize(situation.now, before=old.planned, after=len(record.plan), reason=size.reason)
    trains = record.running and record.plan <= record.member_slots
    if resize is not None and resize.end is None and (trains or not record.plan):
        return dataclasses.replace(resize, end=situation.now)
    return resize


def _changed_size(situation: Situation) -> bool:
    """Whether the plan has another size; to suspend a job, and to resume it, is no resize."""
    return len({situation.status.planned, len(situation.record.plan), 0}) == 3  # noqa: PLR2004 - all different


def _waiting_since(situation: Situation) -> int | None:
    """Since when newcomers of this very plan have been awaited beside this very round."""
    old, record = situation.status, situation.record
    if not record.running or record.plan <= record.member_slots:
        return None
    same = old.round == record.number and old.planned == len(record.plan)
    return situation.noted(old.waiting_since, same=same)


def _notice_time(situation: Situation, before: Record | None) -> int | None:
    notice = situation.record.notice
    if notice is None:
        return None
    same = before is not None and before.notice == notice
    return situation.noted(situation.status.notice_time, same=same)


def _progress_time(observed: Observed) -> int | None:
    """When the last report was written, by its writer's clock: as the Lease says that brought it."""
    old, last = observed.job.status, observed.progress
    if last is None or last == old.progress:
        return old.progress_time
    return next((observed.renewed.get(slot) for slot, lease in observed.leases.items() if lease.progress == last), None)


def _allocation(situation: Situation) -> Allocation | None:
    """What the autoscaler gives, once it has decided. A suspended job has nothing, and is given something anew."""
    given, old = situation.observed.allocation, situation.status.allocation
    if given is None or given.reason == UNDECIDED:
        return None if given is None else old
    if not situation.spec.suspend or not given.wanted:
        return given
    return dataclasses.replace(
        given, nodes=0, pending=0, reason=sizing.SUSPENDED, message="spec.suspend is true", time=situation.now
    )
