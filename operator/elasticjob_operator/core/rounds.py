"""The round's next transition: the policies in order of urgency, one transition a reconcile.

The model of the protocol says what the operator may write and when; each policy is one of its steps. What bounds every
seal, the fewest nodes and the allowed numbers of them, goes with whatever is written, and by itself if nothing is.
"""

import dataclasses

from elasticjob_operator.core import arriving, closing, hanging, leaving, pausing, reforming, resizing, runs
from elasticjob_operator.core.situation import Situation, Step
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Phase, Record

POLICIES = (closing.step, reforming.step, runs.step, arriving.step, hanging.step, leaving.step, resizing.step)


def step(situation: Situation) -> Step:
    """What the first policy that has an answer says."""
    found = next((answer for policy in POLICIES if (answer := policy(situation))), Step())
    record = found.record or situation.record
    if record.phase in (Phase.FINISHING, Phase.CLOSED):
        return found
    bounded = changing.bounded(record, min_nodes=situation.spec.min_nodes, sizes=situation.spec.sizes)
    bounded = dataclasses.replace(bounded, failures=max(bounded.failures, _counted_before(situation, record)))
    return Step(bounded if bounded != situation.record else None, found.wake_after)


def _counted_before(situation: Situation, record: Record) -> int:
    """Failures that were counted before *record*'s round began.

    One that was counted while the agents paused is the record's own at the next seal, unless that came for another
    reason: then it has to be told, or the next failure would be taken for it.
    """
    counters, last = situation.counters, situation.counters.last_failure
    later = record.phase is Phase.SEALED and last is not None and last.round < record.sealed
    return counters.failed_rounds if later and not pausing.ahead(situation.observed, record) else 0
