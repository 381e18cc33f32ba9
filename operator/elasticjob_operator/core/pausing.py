"""The pause that agents keep between rounds whose workers fail one after the other: what the operator makes of it.

The agents decide how long it is. Until it is over the record is as it was, so what has failed is counted and told by
what they say in their Leases.
"""

from elasticjob_operator.core.observed import Observed
from elasticjob_rendezvous.round.record import Phase, Record

MOST_SECONDS = 90
"""In which a pause is over: agents wait a minute at most, and then open the next round."""


def until(observed: Observed, record: Record) -> int | None:
    """When the next round begins, by its agents' clocks; ``None`` where no member of the running round pauses."""
    if record.phase is not Phase.SEALED:
        return None
    leases = [observed.lease(m.slot) for m in record.members if observed.lease(m.slot).nonce == m.nonce]
    return min((one.pause.until for one in leases if one.pause and one.pause.round == record.sealed), default=None)


def ahead(observed: Observed, record: Record) -> bool:
    """Whether the running round has failed, which its record counts only with the next one.

    Not if a member is lost as well: that is told of sooner, and mostly is why the others failed.
    """
    return until(observed, record) is not None and not observed.lost(record)
