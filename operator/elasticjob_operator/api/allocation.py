"""What the autoscaler has given a job, and what it knows of it: all that must outlive the operator's process.

Written into the job's status by the one who writes all of it, the reconcile; the autoscaler only hands it over. What
can't be read counts as absent: it is decided and measured anew.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from elasticjob_operator.api import times

MAX_POINTS = 32
"""Sizes whose throughput is kept (the CRD's bound); the ones measured longest ago go first."""

MAX_MESSAGE = 1024

UNDECIDED = "Undecided"
"""Reason while an autoscaler is there that has not decided yet; only in memory."""

PINNED = "Pinned"
"""Reason where ``spec.nodes`` says the size: the autoscaler counts it, and decides nothing."""


@dataclasses.dataclass(frozen=True)
class Throughput:
    """What was measured at one size: units of progress a second, and how many reports stand behind it."""

    nodes: int
    across: bool
    """Whether the pods were on more than one cluster node."""
    rate: float
    reports: float


@dataclasses.dataclass(frozen=True)
class Allocation:
    """One job's. ``nodes`` is the size it has been given, 0 that it waits or gives way."""

    nodes: int
    reason: str
    message: str = ""
    time: int = 0
    """Since when it has this size."""
    pending: int = 0
    """Pods that it may have though there is no room, so that cluster nodes are added for them."""
    dry_run: bool = False
    """Whether the size is only shown."""
    served: int = 0
    """Seconds times devices (times pods, on CPUs) that it had had at ``time``."""
    tried: int = 0
    """The largest size it has trained at."""
    resize_seconds: int | None = None
    """Seconds of training that a change of its pods costs, as measured."""
    throughput: tuple[Throughput, ...] = ()
    firm: bool = False
    """Whether its minimum may be on no cluster node that can be taken away (spot). A rule of the installation's, so it
    is not in the status.
    """

    @property
    def wanted(self) -> int:
        """Pods that are to be there."""
        return self.nodes or self.pending


def dump(allocation: Allocation) -> dict[str, Any]:
    """The API's form."""
    data = {
        "nodes": allocation.nodes,
        "pendingNodes": allocation.pending or None,
        "reason": allocation.reason,
        "message": allocation.message[:MAX_MESSAGE],
        "time": times.dump(allocation.time),
        "dryRun": allocation.dry_run or None,
        "servedSeconds": allocation.served or None,
        "triedNodes": allocation.tried or None,
        "resizeSeconds": allocation.resize_seconds,
        "throughput": [_point(point) for point in allocation.throughput[-MAX_POINTS:]] or None,
    }
    return {key: value for key, value in data.items() if value is not None}


def parse(data: Mapping[str, Any]) -> Allocation:
    """The value.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it can't be read.
    """
    cost = data.get("resizeSeconds")
    return Allocation(
        nodes=int(data["nodes"]),
        reason=str(data["reason"]),
        message=str(data.get("message", "")),
        time=times.parse(data["time"]) or 0,
        pending=int(data.get("pendingNodes") or 0),
        dry_run=bool(data.get("dryRun")),
        served=int(data.get("servedSeconds") or 0),
        tried=int(data.get("triedNodes") or 0),
        resize_seconds=None if cost is None else int(cost),
        throughput=tuple(point for item in data.get("throughput") or () if (point := _parse_point(item))),
    )


def _point(point: Throughput) -> dict[str, Any]:
    return {
        "nodes": point.nodes,
        "acrossClusterNodes": point.across,
        "rate": float(f"{point.rate:.6g}"),
        "reports": round(point.reports, 1),
    }


def _parse_point(data: Mapping[str, Any]) -> Throughput | None:
    """The point; nothing if it is none: what else is known must not go with it."""
    rate, reports = float(data["rate"]), float(data["reports"])
    if not (math.isfinite(rate) and math.isfinite(reports)):
        return None
    return Throughput(int(data["nodes"]), bool(data.get("acrossClusterNodes")), rate, reports)
