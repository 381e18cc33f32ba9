"""How many nodes a job is to have, and on whose word: the one place that says it."""

import dataclasses

from elasticjob_operator.api.allocation import UNDECIDED, Allocation
from elasticjob_operator.api.spec import Spec

SUSPENDED = "Suspended"
"""``spec.suspend``: no nodes, until it is taken back."""

NODES = "Nodes"
"""``spec.nodes``: set by hand, by ``kubectl scale``, or by an autoscaler through ``/scale``."""

ALLOCATED = "Allocated"
"""What the autoscaler gives; where it gives none, its own reason says why."""

MAX_NODES = "MaxNodes"
"""Nobody has said a size, so it is the most that the job may have."""


_TOLD = {
    SUSPENDED: "spec.suspend is true",
    NODES: "spec.nodes asks for it",
    ALLOCATED: "the autoscaler gives it so many (status.allocation)",
    MAX_NODES: "spec.nodes is left out and nothing else decides, so it has spec.maxNodes",
}


def told(reason: str) -> str:
    """A size's reason for people. The autoscaler's own words for its decisions are in ``status.allocation``."""
    return _TOLD.get(reason, f"the autoscaler's decision ({reason})")


@dataclasses.dataclass(frozen=True)
class Size:
    """Nodes, from ``minNodes`` to ``maxNodes``, or none at all, and why so many: one CamelCase word."""

    nodes: int
    reason: str


def wanted(spec: Spec, allocation: Allocation | None = None, *, planned: int = 0) -> Size:
    """The size that the job is brought to.

    *planned* is the size that it has: it stays so until an autoscaler that has just come has decided.
    """
    if spec.suspend:
        return Size(0, SUSPENDED)
    if spec.nodes is not None:
        return Size(allowed(spec, spec.nodes), NODES)
    if allocation is None or allocation.dry_run:
        return Size(allowed(spec, spec.max_nodes), MAX_NODES)
    nodes = planned if allocation.reason == UNDECIDED else allocation.wanted
    return Size(allowed(spec, nodes), ALLOCATED) if nodes else Size(0, allocation.reason)


def allowed(spec: Spec, nodes: int) -> int:
    """The nearest size that ``spec.allowedNodes`` allows: not above *nodes*, if there is one."""
    return max((size for size in spec.allowed_nodes if size <= nodes), default=spec.allowed_nodes[0])
