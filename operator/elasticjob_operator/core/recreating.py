"""The round record is missing or can't be read: the first one, or one with a number above every number ever seen."""

import dataclasses

from elasticjob_operator.api.spec import Spec
from elasticjob_operator.core import plans, sizing
from elasticjob_operator.core.observed import Observed
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Reason, Record, Result


def readable(observed: Observed) -> Record | None:
    """The record, if it is there, can be read, and is this very job's."""
    record = observed.round.record
    return record if record is not None and record.job == observed.job.uid else None


def record(observed: Observed, spec: Spec) -> Record:
    """The record to start with, or to go on with where there was one.

    Who was in the lost round is unknown, so its failures are kept and every process has to arrive again. A job that was
    over stays over.
    """
    job = observed.job
    size = sizing.wanted(spec, observed.allocation, planned=job.status.planned)
    plan = plans.first(observed, wanted=size.nodes, kept=plans.kept(spec))
    seen = observed.highest_seen
    if seen == 0 and not observed.round.error:
        reason = Reason.STARTED if plan else Reason.SUSPENDED
        return changing.started(job.uid, plan, reason=reason)
    fresh = changing.started(job.uid, plan, number=max(seen, 1) + 1, reason=Reason.STATE_LOST)
    fresh = dataclasses.replace(
        fresh,
        absent=frozenset(slot for slot in plan if slot not in observed.live),
        failures=job.status.failed_rounds,
    )
    result = next((one for one in Result if one.value == job.status.result), Result.NONE)
    return fresh if result is Result.NONE else changing.closed(fresh, result)
