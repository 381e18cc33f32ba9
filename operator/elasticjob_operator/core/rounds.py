"""The round's next transition: the policies in order of urgency, one transition a reconcile.

The model of the protocol says what the operator may write and when; each policy is one of its steps. What bounds every
seal, the fewest nodes and the allowed numbers of them, goes with whatever is written, and by itself if nothing is.
"""

from elasticjob_operator.core import arriving, closing, hanging, leaving, reforming, resizing, runs
from elasticjob_operator.core.situation import Situation, Step
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Phase

POLICIES = (closing.step, reforming.step, runs.step, arriving.step, hanging.step, leaving.step, resizing.step)


def step(situation: Situation) -> Step:
    """What the first policy that has an answer says."""
    found = next((answer for policy in POLICIES if (answer := policy(situation))), Step())
    record = found.record or situation.record
    if record.phase in (Phase.FINISHING, Phase.CLOSED):
        return found
    bounded = changing.bounded(record, min_nodes=situation.spec.min_nodes, sizes=situation.spec.sizes)
    return Step(bounded if bounded != situation.record else None, found.wake_after)
