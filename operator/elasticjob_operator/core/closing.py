"""When the job is over, and how: this is decided once, and for good, by closing the round.

Why a job has failed goes into its status before the round is closed, so that a crash between the two leaves the reason.
"""

from elasticjob_operator.api import words
from elasticjob_operator.core import budgets, deadlines, describing
from elasticjob_operator.core.situation import Situation, Step
from elasticjob_operator.core.verdict import Verdict
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Phase, Reason, Result

STATE_LOST = "StateLostWhileFinishing"
ALL_FINISHED = "AllFinished"

SOON = 0.1
"""Seconds until the round is closed whose verdict has been written into the status."""


def step(situation: Situation) -> Step | None:
    """Close the round if the job is over.

    Invariant: a success is closed only when every member that counts (one that was scaled down does not) has recorded
    that it finished the last sealed round.
    """
    if situation.record.phase is Phase.CLOSED:
        return None
    if _succeeded(situation):
        return Step(changing.closed(situation.record, Result.SUCCEEDED))
    if situation.status.end_reason:
        why = f"{situation.status.end_reason}: {situation.status.end_message}"
        return Step(changing.closed(situation.record, Result.FAILED, why.splitlines()[0]))
    return Step(wake_after=SOON) if failed(situation) else None


def _succeeded(situation: Situation) -> bool:
    record = situation.record
    count = [m for m in record.members if m.slot in record.plan or not record.plan]  # suspended, all of them count
    return bool(count) and all(situation.observed.has_finished(m, record.sealed) for m in count)


def failed(situation: Situation) -> Verdict | None:
    """Why the job is to be given up: the first rule that says so. The status keeps it."""
    if situation.record.phase is Phase.CLOSED or _succeeded(situation):
        return None
    return next((found for rule in RULES if (found := rule(situation))), None)


def _budget_exhausted(situation: Situation) -> Verdict | None:
    """Which budget is used up, and by what last."""
    counters, last = situation.counters, situation.counters.last_failure
    policy = situation.spec.failure_policy
    reason, message = budgets.exhausted(counters.spent, counters.refilled, last.what if last else None, policy)
    return Verdict(reason, f"{message}; {describing.sentence(last)}" if last else message) if reason else None


def _state_lost(situation: Situation) -> Verdict | None:
    """The record was lost after a member had finished: nobody can tell any more who else had to finish."""
    unknown = situation.record.sealed == 0 and situation.record.reason is Reason.STATE_LOST
    if not unknown or not any(lease.finished for lease in situation.observed.leases.values()):
        return None
    message = "the round's ConfigMap was lost while nodes were finishing, so who else had to finish is unknown"
    return Verdict(STATE_LOST, message)


RULES = (_budget_exhausted, deadlines.active, deadlines.startup, _state_lost)
"""What ends a job as failed, in the order in which one is told where several do."""


def told(situation: Situation) -> Verdict:
    """Why a closed job has ended: one word and a sentence."""
    record, status = situation.record, situation.status
    if record.result is Result.SUCCEEDED and status.end_reason != ALL_FINISHED:
        return Verdict(
            ALL_FINISHED, f"every node of round {record.sealed} finished ({words.counted(len(record.members), 'node')})"
        )
    return Verdict(status.end_reason or budgets.TOO_MANY_FAILURES, status.end_message)
