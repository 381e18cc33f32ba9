"""When the job is over, and how: this is decided once, and for good, by closing the round."""

from elasticjob_operator.core.situation import Situation, Step
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Phase, Reason, Record, Result

TOO_MANY_FAILURES = "TooManyFailures"
STATE_LOST = "StateLostWhileFinishing"
ALL_FINISHED = "AllFinished"


def step(situation: Situation) -> Step | None:
    """Close the round if the job is over.

    Invariant: a success is closed only when every member that counts (one that was scaled down does not) has recorded
    that it finished the last sealed round.
    """
    result = _result(situation)
    return Step(changing.closed(situation.record, result)) if result else None


def _result(situation: Situation) -> Result | None:
    record, observed = situation.record, situation.observed
    if record.phase is Phase.CLOSED:
        return None
    count = [m for m in record.members if m.slot in record.plan]
    if count and all(observed.has_finished(m, record.sealed) for m in count):
        return Result.SUCCEEDED
    too_many = situation.counters.failures > situation.spec.max_failures
    return Result.FAILED if too_many or lost_while_finishing(situation) else None


def lost_while_finishing(situation: Situation) -> bool:
    """Whether the record was lost after a member had finished: nobody can tell any more who else had to finish."""
    unknown = situation.record.sealed == 0 and situation.record.reason is Reason.STATE_LOST
    return unknown and any(lease.finished for lease in situation.observed.leases.values())


def reason(record: Record, situation: Situation) -> tuple[str, str]:
    """Why a closed job has ended: one word and a sentence."""
    if record.result is Result.SUCCEEDED:
        return ALL_FINISHED, f"all {len(record.members)} nodes of round {record.sealed} finished"
    if record.reason is not Reason.STATE_LOST or record.sealed:
        return TOO_MANY_FAILURES, _too_many(situation)
    return STATE_LOST, "the round's ConfigMap was lost while nodes were finishing, so who else had to finish is unknown"


def _too_many(situation: Situation) -> str:
    last = situation.counters.last_failure
    why = f"; the last one, on node {last.slot}, exit code {last.exit_code}: {last.message}" if last else ""
    return (
        f"{situation.counters.failures} failures, spec.failurePolicy.maxFailures is {situation.spec.max_failures}{why}"
    )
