"""Nodes that are slower than their peers, round after round of reports: named, never acted on.

In training that goes in step everybody is as fast as the slowest. What tells nodes apart is the time that each spends
on its own work, without waiting for others: scripts that measure it report it (``report_progress(busy=...)``).
"""

import bisect
import statistics
from collections.abc import Mapping

from elasticjob_operator.api import conditions
from elasticjob_operator.api.conditions import Condition
from elasticjob_operator.api.status import Slow
from elasticjob_operator.core.situation import Situation

SLOWER = 1.5
"""A straggler takes so many times as long as the median of the others: well above what differs by chance."""

PERSISTENT_SECONDS = 60
"""For so long at least: several reports, which come with the Leases' renewals every ten seconds or more."""


def remembered(situation: Situation) -> tuple[Slow, ...]:
    """Nodes that are slow now, each with since when."""
    known = {slow.slot: slow.since for slow in situation.status.slow}
    return tuple(Slow(slot, known.get(slot, situation.now)) for slot in sorted(_factors(situation)))


def condition(situation: Situation) -> Condition | None:
    """Who holds the others up; ``None`` where nobody says how long work takes."""
    if len(_busy(situation)) < 2:  # noqa: PLR2004 - nobody to compare with
        return None
    factors = _factors(situation)
    lasting = [slow.slot for slow in remembered(situation) if situation.since(slow.since) >= PERSISTENT_SECONDS]
    if not lasting:
        return Condition(conditions.STRAGGLING, holds=False, reason="InStep")
    told = ", ".join(f"{_place(situation, slot)} takes {factors[slot]:.1f} times as long" for slot in lasting)
    return Condition(conditions.STRAGGLING, holds=True, reason="NodeSlow", message=f"{told} as its peers for a step")


def _factors(situation: Situation) -> dict[int, float]:
    """Slow nodes of the running round, by how much longer their work takes than that of the others."""
    busy = _busy(situation)
    if len(busy) < 2:  # noqa: PLR2004 - nobody to compare with
        return {}
    ordered = sorted(busy.values())
    found = {}
    for slot, seconds in busy.items():
        place = bisect.bisect_left(ordered, seconds)
        others = _median_without(ordered, place)
        if seconds > SLOWER * others:
            found[slot] = seconds / others
    return found


def _median_without(ordered: list[float], place: int) -> float:
    """The median of a sorted list but for one of it; found without another list, for there may be a thousand."""
    rest = len(ordered) - 1
    middles = (rest // 2,) if rest % 2 else (rest // 2 - 1, rest // 2)
    return statistics.fmean(ordered[middle + (middle >= place)] for middle in middles)


def _busy(situation: Situation) -> Mapping[int, float]:
    record, observed = situation.record, situation.observed
    if not record.running:
        return {}
    leases = [observed.lease(member.slot) for member in record.members]
    nonces = {member.nonce for member in record.members}
    return {lease.slot: lease.busy for lease in leases if lease.busy > 0 and lease.nonce in nonces}


def _place(situation: Situation, slot: int) -> str:
    pod = situation.observed.by_uid.get(situation.observed.lease(slot).pod)
    where = f" ({pod.name} on {pod.node})" if pod and pod.node else f" ({pod.name})" if pod else ""
    return f"node {slot}{where}"
