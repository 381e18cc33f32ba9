"""The simulator's jobs: what arrives when, and how fast it really is. The policies never see this, but for oracles."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import curves

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Profile:
    """True progress per second by nodes: on the fewest cluster nodes first, then on one more, and so on.

    A number of cluster nodes beyond the list is as fast as the list's last.
    """

    rates: Mapping[int, tuple[float, ...]]
    fewest: Mapping[int, int]

    def rate(self, nodes: int, cluster_nodes: int) -> float:
        """Work done per second."""
        listed = self.rates[nodes]
        return listed[min(max(cluster_nodes - self.fewest[nodes], 0), len(listed) - 1)]

    def packed(self, nodes: int) -> float:
        """Work done per second on the fewest cluster nodes."""
        return self.rates[nodes][0]

    @functools.cached_property
    def curve(self) -> curves.Curve:
        """What an allocator knows that has measured everything."""
        sizes = range(1, max(self.rates) + 1)
        none = (0.0,)
        return curves.Curve(
            tuple(self.rates.get(n, none)[0] for n in sizes),
            tuple(self.rates.get(n, none)[:2][-1] for n in sizes),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TraceJob:
    """One job of a trace."""

    name: str
    submitted: float
    """Seconds since the trace began."""
    work: float
    """In the profile's unit."""
    profile: Profile
    minimum: int
    maximum: int
    requested: int
    """The size its owner would have run it at: what rigid policies give it."""
    accelerators: int = 1
    kind: str = ""
    """The only type of accelerator it can run on; empty: any."""
    priority: int = 0
    queue: str = ""
    namespace: str = "default"

    @property
    def home(self) -> str:
        """The queue it counts for, as people know it: see `claims.home`."""
        return self.queue or f"namespace {self.namespace}"


@dataclasses.dataclass(kw_only=True)
class Running:
    """A job in the replay. Mutable."""

    job: TraceJob
    pods: dict[str, int] = dataclasses.field(default_factory=dict)
    left: float
    """Work to do."""
    delay: float = 0.0
    """Seconds without progress still to come."""
    speed: float = 1.0
    """Of the accelerators it is on, times what its profile says."""
    waited: float = 0.0
    served: float = 0.0
    ran: float = 0.0
    """Seconds with pods, changes included."""
    changed: float = 0.0
    """When its size was last changed, seconds since the trace began."""
    changes: int = 0
    starts: int = 0
    since_checkpoint: float = 0.0
    finished: float | None = None

    @property
    def nodes(self) -> int:
        """Pods it has."""
        return sum(self.pods.values())

    @property
    def rate(self) -> float:
        """Work per second where it stands, when it is not delayed."""
        return self.speed * self.job.profile.rate(self.nodes, len(self.pods)) if self.pods else 0.0
