"""The cluster's devices: how many each cluster node has, who holds them, how many are free at this moment.

A cluster node with two kinds of devices counts as two, so that each has one number.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from elasticjob_operator.api import spot
from elasticjob_operator.autoscaler import snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from elasticjob_operator.autoscaler.seeing import matching, objects

PRODUCT_LABELS = (
    "nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator", "karpenter.k8s.aws/instance-gpu-name",
)  # fmt: skip
"""Where drivers and clouds say which model of a device a cluster node has."""


class Place(NamedTuple):
    """One kind of device on one cluster node; its text is the name of a `snapshot.ClusterNode`."""

    node: str
    resource: str

    @property
    def key(self) -> str:
        """The name."""
        return f"{self.node}/{self.resource}"


@dataclasses.dataclass(frozen=True, slots=True)
class Stock:
    """All cluster nodes, with what others hold and what is free now."""

    nodes: Mapping[str, objects.Node]
    total: Mapping[Place, int]
    others: Mapping[Place, int]
    """Held by pods that are not ours to count."""
    held: Mapping[Place, int]
    """Held by any pod, ending ones included."""

    def cluster_nodes(self, topology: str) -> tuple[snapshot.ClusterNode, ...]:
        """For the snapshot; *topology*: the label that names the domain."""
        return tuple(
            snapshot.ClusterNode(
                name=place.key,
                free=count - self.others.get(place, 0),
                kind=kind(self.nodes[place.node], place.resource),
                domain=self.nodes[place.node].labels.get(topology, ""),
                volatile=any(self.nodes[place.node].labels.get(key) == value for key, value in spot.LABELS.items()),
                schedulable=self.nodes[place.node].open,
            )
            for place, count in sorted(self.total.items())
        )

    def free(self) -> dict[str, int]:
        """Devices that a pod could have at once, by place; none on cluster nodes that take no pods."""
        return {
            place.key: max(count - self.held.get(place, 0), 0)
            for place, count in self.total.items()
            if self.nodes[place.node].open
        }

    def candidates(self, wishes: matching.Wishes, resource: str) -> frozenset[str]:
        """Places where pods with these wishes may go."""
        able = {name for name, node in self.nodes.items() if wishes.allow(node)}
        return frozenset(place.key for place in self.total if place.resource == resource and place.node in able)


def kind(node: objects.Node, resource: str) -> str:
    """The resource, and the product where it is told: pods of a job all run on one."""
    product = next((node.labels[label] for label in PRODUCT_LABELS if label in node.labels), "")
    return f"{resource}/{product}" if product else resource


def take(
    nodes: Iterable[objects.Node], pods: Iterable[objects.Pod], resources: Collection[str], ours: Collection[str]
) -> Stock:
    """The stock of these resources. *ours*: UIDs of the jobs whose pods are the decision's own affair."""
    known = {node.name: node for node in nodes}
    total = {
        Place(node.name, resource): count
        for node in known.values()
        for resource, count in node.devices.items()
        if resource in resources and count > 0
    }
    others: dict[Place, int] = collections.Counter()
    held: dict[Place, int] = collections.Counter()
    for pod in pods:
        for resource, count in pod.devices.items() if pod.node in known else ():
            held[Place(pod.node, resource)] += count
            if pod.owner not in ours:
                others[Place(pod.node, resource)] += count
    return Stock(known, total, others, held)
