"""How long spot cluster nodes last here: the seconds that all of them have been there, by how many have gone.

Counted by the leader from its first look on, and forgotten with it. One that a cluster autoscaler takes away because
nobody uses it counts like one that the cloud calls back: its pods, if it had any, would be gone just so.
"""

from __future__ import annotations

import dataclasses
import math

LEAST_GONE = 3
"""Before so many have gone nothing is said: of one nobody knows whether it was chance."""


@dataclasses.dataclass(frozen=True, slots=True)
class Lifetimes:
    """What was seen so far."""

    seconds: float = 0.0
    gone: int = 0
    present: frozenset[str] = frozenset()
    at: int = 0
    """When it was looked last, seconds since the epoch."""

    @property
    def mean(self) -> float:
        """Seconds; infinite as long as too few have gone."""
        return self.seconds / self.gone if self.gone >= LEAST_GONE else math.inf


def observed(before: Lifetimes, present: frozenset[str], now: int) -> Lifetimes:
    """With one more look at the names of the spot cluster nodes that there are."""
    passed = max(now - before.at, 0) * len(before.present)
    return Lifetimes(before.seconds + passed, before.gone + len(before.present - present), present, now)
