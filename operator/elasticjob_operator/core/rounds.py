"""The round's next transition: the policies in order of urgency, one transition a reconcile.

The model of the protocol says what the operator may write and when; each policy is one of its steps.
"""

from elasticjob_operator.core import arriving, closing, reforming, resizing
from elasticjob_operator.core.situation import Situation, Step

POLICIES = (closing.step, reforming.step, arriving.step, resizing.step)


def step(situation: Situation) -> Step:
    """What the first policy that has an answer says."""
    for policy in POLICIES:
        answer = policy(situation)
        if answer is not None:
            return answer
    return Step()
