"""A job in the middle of a decision: what it may have, and what it has been given so far. Mutable, and never leaves
it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import curves, decision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elasticjob_operator.autoscaler import settings, snapshot


@dataclasses.dataclass(slots=True, kw_only=True)
class Draft:
    """The allocator's working copy of one job."""

    job: snapshot.Job
    sizes: Sequence[int] = ()
    """The sizes it may have, ascending; the first is its minimum. Empty: none, for `reason`."""
    kinds: tuple[str, ...] = ()
    """Kinds of accelerator it can run on, best first."""
    reason: decision.Reason = decision.Reason.WAITING
    message: str = ""
    weight: float = 1.0
    kind: str = ""
    nodes: int = 0
    loose: int = 0
    """How many of them count as being on volatile cluster nodes."""
    cap: int | None = None
    """Pods beyond this could not be placed well in an earlier round of this decision."""
    partner: Draft | None = None
    """With whom it trades nodes in this decision, so that one of them tries a larger size."""
    barred: bool = False
    """Its minimum could not be placed in an earlier round of this decision."""

    @property
    def minimum(self) -> int:
        """Nodes without which it does not run."""
        return self.sizes[0]

    def cost(self, rules: settings.Settings) -> float:
        """What one change takes of its throughput over the horizon, as a logarithm."""
        return self.job.resize_cost / max(rules.horizon, 1.0)

    @property
    def curve(self) -> curves.Curve:
        """Its throughput on the kind of accelerator chosen for it."""
        job = self.job
        known = job.curves.get(self.kind) or job.curves.get("")
        return known if known is not None else curves.unmeasured(self.sizes[-1])
