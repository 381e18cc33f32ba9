"""Room that the scheduler does not find, though we count it: CPUs, memory, volumes, affinities between pods.

A job whose pods stay unschedulable gets a ceiling, the pods that did find room; after a while, or as soon as more is
free, it may try again. As long as anybody's pods are leaving nobody is judged: what they hold is promised already.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elasticjob_operator.autoscaler.seeing import objects, picture

PATIENCE_SECONDS = 15
"""So long pods may be unschedulable: the scheduler takes one second, and tries again when something changes."""

FIRST_SECONDS, MOST_SECONDS = 60, 960
"""How long a ceiling stands: doubled each time that it proves right again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ceiling:
    """What is known of one job's pods that found no room."""

    since: int | None = None
    """Since when pods are unschedulable."""
    pods: int | None = None
    until: int = 0
    seconds: int = FIRST_SECONDS
    """How long the next one stands."""
    free: int = 0
    """Devices that were free when it was set."""


def judged(
    before: Mapping[str, Ceiling], seen: picture.Picture, pods: tuple[objects.Pod, ...], now: int
) -> dict[str, Ceiling]:
    """The ceilings of now, by the jobs' UIDs; who has never had one is not among them."""
    free, restless = sum(seen.stock.free().values()), leaving(seen, pods)
    refused = {pod.owner for pod in pods if pod.unschedulable and not pod.node and not pod.leaving}
    found = {}
    for one in seen.seen.values():
        uid, known = one.job.uid, one.job.status.allocation
        old = before.get(uid, Ceiling())
        ours = one.wish.nodes is None and known is not None and known.nodes > 0
        new = _judge(old, waits=uid in refused and ours and not restless, bound=len(one.bound), free=free, now=now)
        if new != Ceiling():
            found[uid] = new
    return found


def leaving(seen: picture.Picture, pods: tuple[objects.Pod, ...]) -> bool:
    """Whether devices of our jobs are about to be free: pods that end, or that their job's grant leaves out."""
    ours = {one.job.uid for one in seen.seen.values()}
    if any(pod.leaving and pod.node and pod.devices and pod.owner in ours for pod in pods):
        return True
    sizes = {job.name: job.granted for job in seen.snapshot.jobs if job.pinned is None}
    return any(one.each and len(one.bound) > sizes.get(key, len(one.bound)) for key, one in seen.seen.items())


def _judge(old: Ceiling, *, waits: bool, bound: int, free: int, now: int) -> Ceiling:
    if waits:
        since = now if old.since is None else old.since
        if now - since < PATIENCE_SECONDS:
            return dataclasses.replace(old, since=since)
        again = min(2 * old.seconds, MOST_SECONDS)
        return Ceiling(pods=bound, until=now + old.seconds, seconds=again, free=free)
    if old.pods is not None and (now >= old.until or free > old.free):
        return Ceiling(until=now, seconds=old.seconds if free <= old.free else FIRST_SECONDS)
    if old.pods is None and now - old.until > MOST_SECONDS:
        return Ceiling()
    return dataclasses.replace(old, since=None)
