"""What the allocator says: for each job its nodes, where to put them, and why. Values only; carrying them out is the
operator's.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from elasticjob_operator.api import allocation

if TYPE_CHECKING:
    from elasticjob_operator.autoscaler import snapshot


class Reason(str, enum.Enum):
    """Why a job's size is what it is; CamelCase as conditions want it."""

    STARTED = "Started"
    GROWN = "Grown"
    SHRUNK = "Shrunk"
    KEPT = "Kept"
    MOVED = "Moved"
    """Same size, on fewer cluster nodes."""
    PINNED = allocation.PINNED
    HELD = "Held"
    PREEMPTED = "Preempted"
    """Ran, and gives way."""
    WAITING = "Waiting"
    """Has not run since, for want of room."""
    QUOTA = "QuotaExceeded"
    INVALID = "InvalidSizes"
    TOO_LARGE = "MinimumAboveCluster"
    NO_CAPACITY = "NoCapacity"
    """No cluster node it may run on has an accelerator."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One job's part of a decision."""

    job: str
    before: int
    nodes: int
    reason: Reason
    message: str
    placement: tuple[snapshot.Placement, ...] = ()
    """Where its pods are best put; those of `Job.placement` that are in it stay."""
    ask: int = 0
    """Pods to create beyond `nodes` and leave pending, so that cluster nodes are added for them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """Grants of all jobs, in the snapshot's order."""

    grants: tuple[Grant, ...]

    def nodes(self) -> dict[str, int]:
        """Size by job."""
        return {grant.job: grant.nodes for grant in self.grants}
