"""Short ways to write what the autoscaler reads: cluster nodes, pods and jobs as the API has them."""

from __future__ import annotations

from typing import Any

from elasticjob_operator.api import job as jobs
from elasticjob_operator.api import times
from elasticjob_operator.autoscaler.seeing import measuring, objects, picture
from support import operator_builders as build

GPU = "nvidia.com/gpu"
NOW = build.NOW
RULES = picture.Rules((GPU, "amd.com/gpu"), "topology.kubernetes.io/zone")


def node(name: str, gpus: int = 4, **fields: Any) -> dict[str, Any]:
    """A Node; `labels`, `taints`, `cordoned` and `ready` as fields."""
    ready = "True" if fields.get("ready", True) else "False"
    return {
        "metadata": {"name": name, "labels": fields.get("labels", {})},
        "spec": {"unschedulable": fields.get("cordoned", False), "taints": fields.get("taints", [])},
        "status": {
            "allocatable": {fields.get("resource", GPU): str(gpus), "cpu": "8", "memory": "64Gi"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def pod(name: str, on: str = "", gpus: int = 1, **fields: Any) -> dict[str, Any]:
    """A Pod; `job` is the ElasticJob it belongs to."""
    owner = fields.get("job", "")
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    return {
        "metadata": {
            "name": name,
            "namespace": fields.get("namespace", "default"),
            "labels": {"app.kubernetes.io/managed-by": "elasticjob"} if owner else {},
            "ownerReferences": [{"uid": f"uid-{owner}", "controller": True}] if owner else [],
            **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if fields.get("leaving") else {}),
        },
        "spec": {"containers": [container(gpus, fields.get("resource", GPU))], **({"nodeName": on} if on else {})},
        "status": {
            "phase": fields.get("phase", "Running" if on else "Pending"),
            "conditions": conditions if fields.get("unschedulable") else [],
        },
    }


def container(gpus: int, resource: str = GPU) -> dict[str, Any]:
    """A container that wants so many devices."""
    return {"name": "trainer", "image": "x", **({"resources": {"limits": {resource: gpus}}} if gpus else {})}


def job(name: str, gpus: int = 1, **fields: Any) -> dict[str, Any]:
    """An ElasticJob, an hour old; `template`: more of its PodSpec; `granted`, `status`: what is known of it."""
    template = {"spec": {"containers": [container(gpus)], **fields.pop("template", {})}}
    status, granted = fields.pop("status", {}), fields.pop("granted", None)
    if granted is not None:
        status = {"allocation": {"nodes": granted, "reason": "Kept", "message": "m", "time": at(NOW - 60)}, **status}
    made = build.manifest(name, **{"template": template, **fields})
    made["metadata"] |= {
        "namespace": fields.pop("namespace", "default"),
        "uid": f"uid-{name}",
        "creationTimestamp": at(NOW - 3600),
    }
    return {**made, "status": status}


def at(moment: int) -> str:
    """The API's text of a moment."""
    return times.dump(moment)


def world(
    *parts: dict[str, Any],
    nodes: list[dict[str, Any]] | None = None,
    pods: list[dict[str, Any]] | None = None,
    quotas: list[dict[str, Any]] | None = None,
    priorities: list[dict[str, Any]] | None = None,
    memories: dict[str, measuring.Memory] | None = None,
    **fields: Any,
) -> picture.World:
    """All that was read. *parts* are the jobs."""
    return picture.World(
        jobs=tuple(jobs.parse(part) for part in parts),
        nodes=tuple(objects.node(n) for n in nodes or []),
        pods=tuple(one for p in pods or [] if (one := objects.pod(p))),
        quotas=tuple(found for q in quotas or [] if (found := objects.quota(q))),
        priorities=tuple(objects.priority(p) for p in priorities or []),
        memories=memories or {},
        now=NOW,
        **fields,
    )


def paint(*parts: dict[str, Any], **fields: Any) -> picture.Picture:
    """The picture of such a world."""
    return picture.paint(world(*parts, **fields), RULES)
