"""A cluster node, reduced to whether pods on it can live: does it answer, and is it about to be taken away?"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from elasticjob_operator.api import times

_LEAVING = (
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "cloud.google.com/impending-node-termination",
    "aws-node-termination-handler/",
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.kubernetes.io/out-of-service",
)
"""Taints that say a machine goes for sure and soon: cluster autoscalers, spot and maintenance notices of the clouds. An
entry that ends in a slash is a prefix."""


@dataclasses.dataclass(frozen=True)
class ClusterNode:
    """One cluster node. ``unready_since`` is when Kubernetes noticed, which is up to 50 s after its last sign of life.

    ``cordoned``: it takes no new pods, which is how a drain begins, and may be all that happens. ``leaving``: the taint
    that says that it goes.
    """

    name: str
    unready_since: int | None = None
    cordoned: bool = False
    leaving: str = ""

    @property
    def restless(self) -> bool:
        """Whether its pods may have to go soon."""
        return self.cordoned or bool(self.leaving)


def parse(data: Mapping[str, Any]) -> ClusterNode:
    """The value of a Node object. One that has said nothing yet counts as ready: it can't have pods either."""
    spec, conditions = data.get("spec") or {}, (data.get("status") or {}).get("conditions") or ()
    ready: Mapping[str, Any] = next((c for c in conditions if c.get("type") == "Ready"), {})
    answers = ready.get("status", "True") == "True"
    return ClusterNode(
        name=data["metadata"]["name"],
        unready_since=None if answers else times.parse(ready.get("lastTransitionTime")) or 0,
        cordoned=bool(spec.get("unschedulable")),
        leaving=next((taint["key"] for taint in spec.get("taints") or () if _goes(taint.get("key", ""))), ""),
    )


def _goes(key: str) -> bool:
    return any(key.startswith(known) if known.endswith("/") else key == known for known in _LEAVING)
