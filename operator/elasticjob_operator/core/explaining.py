"""The conditions, and the one word of state that sums them up: is it running, and if not, why not."""

import dataclasses

from elasticjob_operator.api import conditions, status, times, words
from elasticjob_operator.api.conditions import Condition
from elasticjob_operator.core import (
    allocating,
    arriving,
    cleaning,
    closing,
    describing,
    replacing,
    resizing,
    straggling,
)
from elasticjob_operator.core.actions import Problem
from elasticjob_operator.core.pods import Pod
from elasticjob_operator.core.resizing import Stage
from elasticjob_operator.core.situation import Situation
from elasticjob_operator.core.verdict import Verdict
from elasticjob_rendezvous.round.record import Phase, Reason, Result

PODS_PENDING, BACKING_OFF, ALL_READY = "PodsPending", "BackingOff", "AllReady"
ETCD_PENDING = "EtcdPending"


def explained(situation: Situation, known: status.Status, problems: tuple[Problem, ...]) -> status.Status:
    """*known* with its conditions, state and reason. *problems* are what the API server has just refused."""
    closed = situation.record.phase is Phase.CLOSED
    over = closed and cleaning.over(situation, known.round_time)
    found = [
        _running(situation),
        _pods(situation, problems),
        _resizing(situation, known),
        _suspended(situation),
        *allocating.allocated(known),
        *_endings(situation, over=over),
        *filter(None, [straggling.condition(situation)]),
    ]
    known = dataclasses.replace(
        known,
        conditions=tuple(_stamped(situation, condition) for condition in found),
        completion_time=(known.completion_time or situation.now) if over else None,
    )
    known = dataclasses.replace(known, state=_state(situation, known))
    return dataclasses.replace(known, reason=_reason(situation, known))


def _stamped(situation: Situation, condition: Condition) -> Condition:
    generation = situation.observed.job.generation
    new = dataclasses.replace(condition, since=situation.now, generation=generation)
    return conditions.kept(situation.status.conditions, new)


def _running(situation: Situation) -> Condition:
    record = situation.record
    if record.phase is Phase.CLOSED:
        why = closing.told(situation)
        return Condition(conditions.RUNNING, holds=False, reason=why.reason, message=why.message)
    if situation.paused_until is not None:
        message = f"the workers of round {record.number} failed without progress; the next round begins at "
        message += times.dump(situation.paused_until) + _last(situation)
        return Condition(conditions.RUNNING, holds=False, reason=BACKING_OFF, message=message)
    if record.running:
        message = f"round {record.number} trains on {words.counted(len(record.members), 'node')}" + _before(situation)
        return Condition(conditions.RUNNING, holds=True, reason=record.reason.value, message=message)
    if not record.plan:
        return Condition(conditions.RUNNING, holds=False, reason=situation.size.reason, message="no nodes are wanted")
    waiting = record.plan - record.absent - _arrived(situation)
    message = f"round {record.number} waits for {words.nodes(waiting)}" if waiting else _too_few(situation)
    return Condition(conditions.RUNNING, holds=False, reason=record.reason.value, message=message + _why(situation))


def _before(situation: Situation) -> str:
    """The last failure, until the round that was formed for it reports a step: it may go the same way."""
    record, last, progress = situation.record, situation.counters.last_failure, situation.observed.progress
    stepped = progress is not None and progress.round == record.number
    if last is None or stepped or record.reason is not Reason.WORKERS_FAILED:
        return ""
    return f"; last failure: {describing.pointed(last)}"


def _why(situation: Situation) -> str:
    """The last failure, if it is what the round was opened for."""
    last = situation.counters.last_failure
    recent = last is not None and (situation.counters.failed or last.round == situation.record.sealed)
    return _last(situation) if recent else ""


def _last(situation: Situation) -> str:
    last = situation.counters.last_failure
    return f"; {describing.pointed(last)}" if last is not None else ""


def _arrived(situation: Situation) -> frozenset[int]:
    record, observed = situation.record, situation.observed
    return frozenset(s for s in record.plan if observed.lease(s).arrived == record.number)


def _too_few(situation: Situation) -> str:
    record, arrived = situation.record, len(_arrived(situation))
    if arrived >= situation.spec.min_nodes:
        return f"round {record.number} is about to be sealed"
    size = words.counted(arrived, "node")
    return f"round {record.number} has {size} and needs {situation.spec.min_nodes} (spec.minNodes)"


def _pods(situation: Situation, problems: tuple[Problem, ...]) -> Condition:
    if situation.record.phase is Phase.CLOSED:
        return _pods_over()
    etcd, managed = situation.observed.etcd, situation.spec.rendezvous.etcd_managed
    if managed and not problems and situation.record.plan and not (etcd and etcd.ready):
        return _etcd_not_ready(etcd)
    return _pods_ready(situation, problems)


def _pods_ready(situation: Situation, problems: tuple[Problem, ...]) -> Condition:
    """Why pods are missing or not running: the API server's refusal first, then the pods' own trouble."""
    wanted = [s for s in situation.record.plan if s not in situation.finished]
    ready = [s for s in wanted if any(p.ready for p in situation.observed.live.get(s, ()))]
    troubled = [p for s in wanted for p in situation.observed.live.get(s, ()) if p.trouble]
    count = f"pods ready: {len(ready)} of {len(wanted)}"
    if problems:
        return Condition(conditions.PODS_READY, holds=False, reason=problems[0].reason, message=problems[0].message)
    if not situation.record.plan:
        return Condition(conditions.PODS_READY, holds=False, reason=situation.size.reason, message=count)
    if len(ready) == len(wanted):
        return Condition(conditions.PODS_READY, holds=True, reason=ALL_READY, message=count)
    if troubled:
        pod = troubled[0]
        message = f"{count}; {pod.name}: {pod.message or pod.trouble}"
        return Condition(conditions.PODS_READY, holds=False, reason=pod.trouble, message=message)
    if replacing.backoff(situation):
        failed = words.counted(situation.counters.failed_pods, "pod")
        again = times.dump(situation.now + replacing.backoff(situation))
        message = f"{count}; {failed} failed so far, the next is made at {again}"
        return Condition(conditions.PODS_READY, holds=False, reason=BACKING_OFF, message=message)
    waiting = [p.name for s in wanted for p in situation.observed.live.get(s, ()) if not p.ready]
    message = f"{count}; what {waiting[0]} waits for: kubectl describe pod {waiting[0]}" if waiting else count
    return Condition(conditions.PODS_READY, holds=False, reason=PODS_PENDING, message=message)


def _etcd_not_ready(etcd: Pod | None) -> Condition:
    why = etcd.trouble if etcd and etcd.trouble else ETCD_PENDING
    message = f"the job's own etcd is not ready{': ' + etcd.message if etcd and etcd.message else ''}"
    return Condition(conditions.PODS_READY, holds=False, reason=why, message=message)


def _pods_over() -> Condition:
    return Condition(conditions.PODS_READY, holds=False, reason="JobOver", message="no pods are needed any more")


def _resizing(situation: Situation, known: status.Status) -> Condition:
    resize, record = known.resizing, situation.record
    moving = situation.target != record.plan or record.notice is not None
    if record.phase is Phase.CLOSED or not (resize or moving):
        return Condition(
            conditions.RESIZING, holds=False, reason="AsWanted", message=words.counted(len(record.plan), "node")
        )
    message = f"from {words.counted(resize.before if resize else len(record.plan), 'node')} to {situation.wanted}"
    at = resizing.stage(situation)
    if at is Stage.NEWCOMERS and arriving.missing(situation):
        message += f"; training goes on until newcomers are ready: {words.nodes(arriving.missing(situation))}"
    return Condition(conditions.RESIZING, holds=at is not Stage.STEADY, reason=at.value, message=message)


def _suspended(situation: Situation) -> Condition:
    """Whether the job is at rest: no nodes are wanted, and none is left."""
    record, live = situation.record, sum(pod.live for pod in situation.observed.pods)
    if situation.wanted or record.phase in (Phase.FINISHING, Phase.CLOSED):
        return Condition(conditions.SUSPENDED, holds=False, reason="NotSuspended")
    rests = not (live or record.plan)
    message = (
        "no pods are left; the counters go on where they are"
        if rests
        else f"still ending: {words.counted(live, 'pod')}"
    )
    return Condition(conditions.SUSPENDED, holds=rests, reason=situation.size.reason, message=message)


def _endings(situation: Situation, *, over: bool) -> tuple[Condition, Condition]:
    record = situation.record
    why = closing.told(situation) if over else Verdict("NotOver", "")
    good, bad = over and record.result is Result.SUCCEEDED, over and record.result is Result.FAILED
    last = situation.counters.last_failure
    whole = describing.detailed(why.message, last) if last and last.message in why.message else why.message
    return (
        Condition(conditions.SUCCEEDED, holds=good, reason=why.reason, message=why.message if good else ""),
        Condition(conditions.FAILED, holds=bad, reason=why.reason, message=whole if bad else ""),
    )


def _state(situation: Situation, known: status.Status) -> str:
    record = situation.record
    if known.finished:
        return record.result.value
    if record.phase in (Phase.FINISHING, Phase.CLOSED):
        return "Finishing"
    if not situation.wanted:
        return "Suspended" if known.holds(conditions.SUSPENDED) else "Suspending"
    if _backs_off(situation, known):
        return BACKING_OFF
    if record.phase is Phase.OPEN:
        return "Starting" if arriving.first_start(record) else "Reforming"
    return "Resizing" if known.holds(conditions.RESIZING) else "Running"


def _backs_off(situation: Situation, known: status.Status) -> str:
    """What has failed again and again, so that the next try is put off, and nobody trains meanwhile; or nothing."""
    if situation.paused_until is not None:
        return Reason.WORKERS_FAILED.value
    ready = conditions.find(known.conditions, conditions.PODS_READY)
    pods = situation.record.phase is Phase.OPEN and ready and ready.reason == BACKING_OFF
    return "PodFailed" if pods else ""


def _reason(situation: Situation, known: status.Status) -> str:
    """Of a job that does not run, what its pods lack; else why the round is as it is."""
    if known.state == BACKING_OFF:
        return _backs_off(situation, known)
    ready = conditions.find(known.conditions, conditions.PODS_READY)
    if situation.record.phase is Phase.CLOSED:
        return closing.told(situation).reason
    if known.state == "Suspending":
        return situation.size.reason
    starts = arriving.first_start(situation.record)
    usual = (ALL_READY,) if starts else (ALL_READY, PODS_PENDING)
    if situation.record.phase is Phase.OPEN and ready and ready.reason not in usual:
        return ready.reason
    return situation.record.reason.value
