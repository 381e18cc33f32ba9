"""How decisions are made. The defaults are those of the papers' model, an operator's are `chosen`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elasticjob_operator.api import settings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One for the whole cluster."""

    horizon: float = 300.0
    """Seconds that a size is expected to stand: a resize must earn back its cost within this time. Jobs arrive about
    every 3 minutes and end as often on 64 GPUs in Pollux's traces. In a first replay without places 120, 300 and 600 s
    differed by under 2 %; a longer horizon resizes more often.
    """
    youngest: float = 600.0
    """Seconds: below this the jobs' mean age tells nothing of their lengths (see `surplus.weigh`)."""
    turn: float = 3600.0
    """Seconds a job runs before equals that have had less may take its place, while the minimums do not all fit."""
    volatile_minimum: bool = False
    """Whether a job's minimum may rest on volatile cluster nodes where stable ones have no room for it."""
    pending_limit: int = 0
    """Accelerators that pods may ask for beyond what there is, so that a cluster autoscaler adds cluster nodes."""
    moves: bool = True
    """Whether a running job's pods may be put elsewhere to make room or to pack better. The papers' schedulers do so;
    in the operator pods stay where Kubernetes' scheduler has put them, whatever that is.
    """
    rounds: int = 4
    """How often sizes are chosen anew when they could not be placed; then the rest is placed smaller."""


def chosen(wish: settings.Autoscaler) -> Settings:
    """What an administrator has set, in an operator, which leaves running pods where they are."""
    return Settings(moves=False, pending_limit=wish.pending, volatile_minimum=wish.volatile_minimum)
