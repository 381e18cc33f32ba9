"""How much failing a job is allowed: a budget for each class, which training that gets on gives back.

A long job fails now and then; what must end is one that fails and fails and gets nowhere. So what counts are failures
since training last went ``refillSteps`` further than it had ever been before them: a job that crashes at the same step
again and again never does.
"""

import dataclasses

from elasticjob_operator.api import words
from elasticjob_operator.api.failures import FailureClass, FailurePolicy
from elasticjob_operator.api.status import Spent, Status
from elasticjob_rendezvous.round.lease import Progress

TOO_MANY_FAILURES = "TooManyFailures"
TOO_MANY_INFRASTRUCTURE_FAILURES = "TooManyInfrastructureFailures"
TOO_MANY_DISRUPTIONS = "TooManyDisruptions"
FATAL = "FatalExitCode"


def refilled(before: Status, total: Spent, progress: Progress | None, policy: FailurePolicy) -> Spent:
    """What was given back: the counters as they were then. ``step`` is the furthest that training was at a failure.

    *total* are the counters now. What is counted now has happened before the progress that is known.
    """
    old, step = before.refilled, progress.step if progress else 0
    if total.counts != before.spent.counts:
        known = before.progress.step if before.progress else 0
        return dataclasses.replace(old, step=max(old.step, step, known))
    if policy.refill_steps and old.counts != total.counts and step >= old.step + policy.refill_steps:
        return dataclasses.replace(total, step=old.step)
    return old


def exhausted(total: Spent, given_back: Spent, last: FailureClass | None, policy: FailurePolicy) -> tuple[str, str]:
    """Why the job must end: one word and a sentence; two empty texts where it need not."""
    if last is FailureClass.FATAL:
        return FATAL, "spec.failurePolicy.exitCodes calls the exit code fatal"
    for reason, what, used, most, field in (
        (TOO_MANY_FAILURES, "failure", total.failures - given_back.failures, policy.max_failures, "maxFailures"),
        (
            TOO_MANY_INFRASTRUCTURE_FAILURES,
            "machine failure",
            total.infrastructure - given_back.infrastructure,
            policy.max_infrastructure,
            "maxInfrastructureFailures",
        ),
        (
            TOO_MANY_DISRUPTIONS,
            "disruption",
            total.disruptions - given_back.disruptions,
            policy.max_disruptions,
            "maxDisruptions",
        ),
    ):
        if most is not None and used > most:
            since = " since training last got on" if given_back.counts != (0, 0, 0, 0) else ""
            return reason, f"{words.counted(used, what)}{since}, spec.failurePolicy.{field} is {most}"
    return "", ""
