"""Cluster nodes, pods, quotas and priorities, reduced to what the autoscaler needs: thousands of them stay in memory.

Only whole devices are read, that is extended resources such as `nvidia.com/gpu`. CPUs and memory are the scheduler's
affair; what they keep from starting shows as pods that stay unschedulable.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, Any

from elasticjob_operator.api import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Counts = dict[str, int]
"""Devices by resource name."""

SUFFIXES = {"k": 10**3, "Ki": 2**10, "M": 10**6, "Mi": 2**20}
"""Quantities of a thousand devices and more are written so by the API server."""

HARD_PREFIXES = ("requests.", "limits.")
"""How a ResourceQuota names an extended resource; the server knows only the first, and takes both."""


@dataclasses.dataclass(frozen=True, slots=True)
class Taint:
    """A taint that keeps pods away."""

    key: str
    value: str
    effect: str


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A cluster node."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    cordoned: bool
    ready: bool
    devices: Mapping[str, int]
    """What its pods may have in all."""

    @property
    def open(self) -> bool:
        """Whether new pods may come. Those that are there stay when it is not ready, too: they may well train on, and
        when they don't, that is found out by their own silence. A control plane that loses sight of all cluster nodes
        at once must not stop every job.
        """
        return self.ready and not self.cordoned


@dataclasses.dataclass(frozen=True, slots=True)
class Pod:
    """A pod, anybody's, that has not ended."""

    namespace: str
    name: str
    owner: str
    """UID of its controller; an ElasticJob's pods are known by it."""
    node: str
    """Empty while it is not bound."""
    leaving: bool
    unschedulable: bool
    devices: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota on devices."""

    namespace: str
    hard: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Priority:
    """A PriorityClass."""

    name: str
    value: int
    default: bool


def whole(value: object) -> int:
    """A quantity of devices.

    Raises:
        ValueError: it is not a whole number.
    """
    text = str(value)
    number = text.rstrip("kKMi")
    return int(number) * (SUFFIXES[text[len(number) :]] if number != text else 1)


def devices(quantities: Mapping[str, Any] | None) -> Counts:
    """The extended resources among them: those with a domain that is not Kubernetes' own."""
    found = {}
    for name, value in (quantities or {}).items():
        if "/" in name and not name.split("/")[0].endswith("kubernetes.io"):
            try:
                found[name] = whole(value)
            except (ValueError, KeyError):
                continue  # the API server refuses such a pod; of a cluster node it is nothing that we could give
    return found


def requests(spec: Mapping[str, Any]) -> Counts:
    """What a pod holds, as the scheduler counts: all containers together, or its hungriest init container."""
    side = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    sums = _sum(_of(container) for container in (*side, *spec["containers"]))
    for container in spec.get("initContainers") or ():
        for name, count in _of(container).items():
            sums[name] = max(sums.get(name, 0), count)
    return {name: count for name, count in sums.items() if count > 0}


def node(data: Mapping[str, Any]) -> Node:
    """The value of a Node."""
    spec, status = data.get("spec") or {}, data.get("status") or {}
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
    taints = (Taint(t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or ())
    return Node(
        name=data["metadata"]["name"],
        labels=data["metadata"].get("labels") or {},
        taints=tuple(taint for taint in taints if taint.effect in ("NoSchedule", "NoExecute")),
        cordoned=bool(spec.get("unschedulable")),
        ready=ready,
        devices=devices(status.get("allocatable")),
    )


def pod(data: Mapping[str, Any]) -> Pod | None:
    """The value of a Pod; nothing if it does not matter here: it has ended, or is somebody's without devices."""
    meta, spec, status = data["metadata"], data["spec"], data.get("status") or {}
    held, ours = requests(spec), (meta.get("labels") or {}).get(names.MANAGED_BY_LABEL) == names.MANAGED_BY
    if status.get("phase") in ("Succeeded", "Failed") or not (held or ours):
        return None
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    return Pod(
        namespace=meta["namespace"],
        name=meta["name"],
        owner=next((ref["uid"] for ref in meta.get("ownerReferences") or () if ref.get("controller")), ""),
        node=spec.get("nodeName") or "",
        leaving=bool(meta.get("deletionTimestamp")),
        unschedulable=scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable",
        devices=held,
    )


def quota(data: Mapping[str, Any]) -> Quota | None:
    """The value of a ResourceQuota; nothing if it says nothing of devices, or only of some pods (scopes)."""
    spec = data.get("spec") or {}
    hard: Counts = {}
    for name, value in (spec.get("hard") or {}).items():
        for prefix in HARD_PREFIXES:
            for resource, count in devices({name.removeprefix(prefix): value}).items() if prefix in name else ():
                hard[resource] = min(hard.get(resource, count), count)
    scoped = spec.get("scopes") or spec.get("scopeSelector")
    return Quota(data["metadata"]["namespace"], hard) if hard and not scoped else None


def priority(data: Mapping[str, Any]) -> Priority:
    """The value of a PriorityClass."""
    return Priority(data["metadata"]["name"], int(data.get("value") or 0), bool(data.get("globalDefault")))


def _of(container: Mapping[str, Any]) -> Counts:
    """Of devices requests and limits are the same; whoever leaves one out gets the other."""
    resources = container.get("resources") or {}
    return devices({**(resources.get("requests") or {}), **(resources.get("limits") or {})})


def _sum(parts: Iterable[Counts]) -> Counts:
    sums: Counts = collections.Counter()
    for part in parts:
        for name, count in part.items():
            sums[name] += count
    return dict(sums)
