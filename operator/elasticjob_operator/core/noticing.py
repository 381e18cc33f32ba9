"""The notice in the round, which asks the workers for something, mostly a checkpoint: why, and is it answered?

Its id begins with its purpose. Round and time make it another one than any before: an old answer must not count for it.
"""

from elasticjob_operator.core.situation import Situation
from elasticjob_rendezvous.round.record import Notice

LEAVING = "leaving"
"""Purpose: cluster nodes may go. Without one, a notice is a resize's."""

STACKS = "stacks"
"""Purpose: workers hang, and their agents are to have their stacks written. No checkpoint is wanted."""


def notice(situation: Situation, purpose: str = "") -> Notice:
    """A new notice."""
    name = f"{situation.record.number}.{situation.now}"
    return Notice(f"{purpose}.{name}" if purpose else name, situation.spec.checkpoint_grace)


def purpose(found: Notice) -> str:
    """What a notice was written for."""
    first = found.id.partition(".")[0]
    return "" if first.isdecimal() else first


def asks(situation: Situation) -> bool:
    """Whether workers are asked for checkpoints at all: they can be told, and have time for one."""
    return situation.spec.rendezvous.told and situation.spec.checkpoint_grace > 0


def acknowledged(situation: Situation) -> bool:
    """Whether rank 0 has answered the notice with a checkpoint."""
    record = situation.record
    lease = situation.observed.lease(record.members[0].slot)
    return (
        record.notice is not None and lease.nonce == record.members[0].nonce and lease.checkpointed == record.notice.id
    )


def left(situation: Situation) -> int:
    """Seconds that the workers have left to answer."""
    found = situation.record.notice
    return found.grace_seconds - situation.since(situation.status.notice_time) if found else 0


def answered(situation: Situation) -> bool:
    """Whether the notice is answered, or has had its time."""
    return situation.record.notice is not None and (left(situation) <= 0 or acknowledged(situation))
