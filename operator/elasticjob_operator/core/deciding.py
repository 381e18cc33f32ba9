"""The decision: everything that was observed of a job in, everything to do about it out.

Pure and whole: called again with what its own actions have led to, it decides nothing. Where the API server refuses an
action it is called a second time with the refusal, to say so in the status.
"""

import dataclasses

from elasticjob_operator.api import conditions, status
from elasticjob_operator.api.allocation import UNDECIDED
from elasticjob_operator.api.job import Job
from elasticjob_operator.api.spec import Spec
from elasticjob_operator.core import (
    avoiding,
    children,
    cleaning,
    counting,
    deadlines,
    explaining,
    forsaking,
    hanging,
    permitting,
    places,
    recreating,
    releasing,
    replacing,
    reporting,
    rounds,
    runs,
    telling,
)
from elasticjob_operator.core.actions import Action, Create, Decision, DeleteJob, Problem, WriteRound
from elasticjob_operator.core.observed import Observed
from elasticjob_operator.core.situation import Situation, Step
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Phase, Record, Result

INVALID_SPEC = "InvalidSpec"

ROUND_TOO_NEW = "RoundTooNew"
"""The round is a later version's, whose operator was here before, and its agents are. It is left to them."""

SOON = 0.1
"""Seconds until what had to wait for the status to be written: Leases of the dead are freed, lost pods replaced."""

PODS_A_LOOK = 256
"""Pods made and deleted before the job is looked at again: a few seconds' worth, of which its status tells then."""


def decide(observed: Observed, now: int, problems: tuple[Problem, ...] = ()) -> Decision:
    """What to do about a job. With *problems*, what to say after they came up."""
    observed = dataclasses.replace(observed, job=_timely(observed.job, now))
    job, spec = observed.job, observed.job.spec
    expiry = cleaning.time_to_live(job.status, spec, now)
    if not job.deleting and expiry == 0:
        return Decision(status=job.status, actions=(DeleteJob(job.uid),))
    if job.deleting or (observed.round.record is None and job.status.finished):
        return Decision(status=job.status, wake_after=expiry)  # owner references do the rest
    if isinstance(spec, str) or observed.round.newer:
        return _unread(observed, now)
    if _waits_for_the_first_decision(observed):
        return Decision(status=dataclasses.replace(job.status, state="Suspended", reason=UNDECIDED))
    seen = runs.filled(observed, spec)
    start = recreating.readable(observed) or recreating.record(observed, spec)
    counters = counting.count(seen, start, spec.failure_policy, now)
    freed = tuple(releasing.releases(observed, recreating.readable(observed), counters.fresh))
    situation, step = _stepped(Situation(releasing.after(seen, freed), spec, start, counters, now))
    ready = _has_leases(situation)
    if refused := [problem for problem in problems if problem.kind != "Pod"]:
        if not observed.round.version:
            return _roundless(situation, refused[0])
        if not ready:  # so the round was not written
            situation = dataclasses.replace(situation, record=recreating.readable(observed) or situation.record)
    known = reporting.moments(situation, recreating.readable(observed))
    slots = children.needed(observed, spec.max_nodes, situation.record)
    pods = _pods(situation, known)
    barred = permitting.refusal(spec, observed.installation.privileges)
    problems = (barred, *problems) if barred else problems
    written = [WriteRound(step.record, observed.round.version)] if step.record else []
    actions: tuple[Action, ...] = (
        *freed,
        *(written if ready else ()),
        *children.missing(observed, spec, slots),
        *(() if ready else written),
        *children.surplus(observed, slots),
        *children.budget(situation),
        *places.etcd_actions(observed, spec.rendezvous, needed=_trains(situation)),
        *pods[:PODS_A_LOOK],
    )
    new = explaining.explained(situation, known, problems)
    error = observed.round.error if recreating.readable(observed) is None else ""
    return Decision(
        actions=tuple(action for action in actions if not (barred and _makes_pod(action))),
        status=new,
        events=tuple(telling.events(situation, new, problems, error)),
        wake_after=SOON if len(pods) > PODS_A_LOOK and not problems else _wake(situation, step, new),
    )


def _has_leases(situation: Situation) -> bool:
    """Whether all nodes of the round have Leases: then nothing that may be refused keeps it from being written."""
    return not situation.spec.rendezvous.told or situation.record.plan <= situation.observed.leases.keys()


def _makes_pod(action: Action) -> bool:
    return isinstance(action, Create) and action.kind == "Pod"


def _trains(situation: Situation) -> bool:
    """Whether the job has, or is to have, nodes."""
    return situation.record.phase is not Phase.CLOSED and bool(situation.record.plan)


def _timely(job: Job, now: int) -> Job:
    return dataclasses.replace(job, status=status.not_after(job.status, now))


def _waits_for_the_first_decision(observed: Observed) -> bool:
    """Whether a new job's size is the autoscaler's to say, which it does in a moment."""
    spec, given = observed.job.spec, observed.allocation
    undecided = isinstance(spec, Spec) and spec.nodes is None and not spec.suspend
    new = observed.round.record is None and not observed.round.error and not observed.job.status.round
    return undecided and new and given is not None and given.reason == UNDECIDED and not given.dry_run


def _stepped(situation: Situation) -> tuple[Situation, Step]:
    """The situation once the next record is written, and that: not before all is counted that it would forget."""
    readable = recreating.readable(situation.observed)
    step = rounds.step(situation) if readable else Step(situation.record)
    if readable and step.record and _forgotten(situation, step.record):
        step = Step(wake_after=SOON)
    return dataclasses.replace(situation, record=step.record or situation.record), step


def _forgotten(situation: Situation, record: Record) -> bool:
    """Whether *record* is of a job, or without slots, whose pods count for nothing."""
    return bool(situation.uncounted - (frozenset() if record.phase is Phase.CLOSED else record.plan))


def _pods(situation: Situation, known: status.Status) -> tuple[Action, ...]:
    if situation.record.phase is Phase.CLOSED:
        return tuple(cleaning.actions(situation, known.round_time))
    return tuple(replacing.actions(situation, resized=_plan_time(situation, known)))


def _plan_time(situation: Situation, known: status.Status) -> int | None:
    """Since when pods outside of the plan have known that they are not wanted."""
    if not situation.record.plan:
        return known.round_time
    return known.last_resize.start if known.last_resize else None


def _wake(situation: Situation, step: Step, known: status.Status) -> float | None:
    """The soonest moment at which time alone would change the decision."""
    ends = [step.wake_after, cleaning.time_to_live(known, situation.spec, situation.now)]
    if situation.counters.fresh or situation.observed.run_over:
        ends.append(SOON)
    ends += [max(1, left) for left in replacing.overstays(situation)]
    ends += deadlines.left(situation)
    if (hung := hanging.left(situation)) is not None and hung > 0:
        ends.append(hung)
    ends += [max(1, left) for left in (*forsaking.left(situation), *avoiding.left(situation))]
    if situation.record.phase is Phase.CLOSED and not known.completion_time:
        ends.append(max(1, replacing.LEAVING_SECONDS - situation.since(known.round_time)))
    if any(p.live and p.slot not in situation.record.plan for p in situation.observed.pods):
        ends.append(max(1, replacing.LEAVING_SECONDS - situation.since(_plan_time(situation, known))))
    ends.append(replacing.backoff(situation) or None)
    return min((end for end in ends if end is not None), default=None)


def _roundless(situation: Situation, problem: Problem) -> Decision:
    """The round's ConfigMap is refused. The deadlines of a job without pods hold all the same."""
    stuck = _stuck(situation.observed, problem, situation.now, state="Starting")
    begun = situation.noted(situation.status.start_time) if situation.wanted else None
    situation = _knowing(situation, dataclasses.replace(stuck.status, start_time=begun))
    late = None if situation.observed.pods else deadlines.active(situation) or deadlines.startup(situation)
    if late is None:
        left = min(deadlines.left(situation), default=None) if begun is not None else None
        return dataclasses.replace(stuck, status=situation.status, wake_after=left)
    known = dataclasses.replace(situation.status, end_reason=late.reason, end_message=late.message)
    closed = changing.closed(situation.record, Result.FAILED)
    over = _knowing(dataclasses.replace(situation, record=closed), known)
    new = explaining.explained(over, reporting.moments(over, None), ())
    return Decision(status=new, events=tuple(telling.end(situation.status, new)))


def _knowing(situation: Situation, known: status.Status) -> Situation:
    job = dataclasses.replace(situation.observed.job, status=known)
    return dataclasses.replace(situation, observed=dataclasses.replace(situation.observed, job=job))


def _unread(observed: Observed, now: int) -> Decision:
    job = observed.job
    if isinstance(job.spec, str):
        return _stuck(observed, Problem(INVALID_SPEC, job.spec), now, state="Invalid")
    return _stuck(observed, Problem(ROUND_TOO_NEW, observed.round.error), now, state=job.status.state)


def _stuck(observed: Observed, problem: Problem, now: int, *, state: str) -> Decision:
    """What can't be understood, or a round that has no place: nothing is touched, and the status says why."""
    job, old = observed.job, observed.job.status
    bad = conditions.Condition(conditions.PODS_READY, holds=False, reason=problem.reason, message=problem.message)
    stamped = conditions.kept(old.conditions, dataclasses.replace(bad, since=now, generation=job.generation))
    rest = tuple(c for c in old.conditions if c.type != stamped.type)
    new = dataclasses.replace(
        old,
        observed_generation=job.generation,
        state=state,
        reason=problem.reason,
        conditions=(*rest, stamped),
    )
    return Decision(status=new, events=tuple(telling.problem(job, problem)))
