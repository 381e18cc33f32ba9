"""Cluster nodes that are not there, with devices that are not there: Node objects that the real scheduler believes."""

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator
from typing import Any

from elasticjob_operator.kube import client as clients
from elasticjob_operator.kube import errors
from support.operator_cluster import until

GPU = "nvidia.com/gpu"

REPORT_SECONDS = 2
"""A busy control plane may miss several reports before a cluster node counts as lost (`NODE_GRACE_SECONDS`)."""

LEASES = "kube-node-lease"


@contextlib.asynccontextmanager
async def node(admin: clients.Client, name: str, gpus: int, **labels: str) -> AsyncIterator[asyncio.Task[None]]:
    """A cluster node that is ready for as long as its kubelet runs: until the block ends, or the task is cancelled."""
    head = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"test": name, **labels}}}
    await admin.request("POST", clients.path("Node", None), body=head)
    kubelet = asyncio.create_task(_kubelet(admin, name, gpus))
    try:
        await until(lambda: _open_to_pods(admin, name))
        yield kubelet
    finally:
        kubelet.cancel()
        await asyncio.wait([kubelet])
        await admin.request("DELETE", clients.path("Node", None, name))


async def _open_to_pods(admin: clients.Client, name: str) -> bool:
    found = await admin.request("GET", clients.path("Node", None, name))
    return _ready(found) and not found["spec"].get("taints")


async def _kubelet(admin: clients.Client, name: str, gpus: int) -> None:
    """What a kubelet does to be taken for alive. On a busy machine the controllers give up even who tells in time, and
    then wait to be told that the cluster node is ready after all.
    """
    while True:
        with contextlib.suppress(errors.ApiError):
            await _renew(admin, name)
            await _tell_ready(admin, name, gpus)
        await asyncio.sleep(REPORT_SECONDS)


async def _renew(admin: clients.Client, name: str) -> None:
    now = dt.datetime.now(tz=dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
    found = await admin.get("Lease", LEASES, name)
    if found is None:
        meta = {"name": name, "namespace": LEASES}
        await admin.create(
            "Lease", {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
        )
    else:
        await admin.replace("Lease", {**found, "spec": spec})


async def _tell_ready(admin: clients.Client, name: str, gpus: int) -> None:
    found = await admin.request("GET", clients.path("Node", None, name))
    if _ready(found):
        return
    room = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: str(gpus)}
    ready = {"type": "Ready", "status": "True", "reason": "Pretended", "message": "", "lastHeartbeatTime": None}
    del found["metadata"]["resourceVersion"]  # controllers write it meanwhile
    found["status"] = {"capacity": room, "allocatable": room, "conditions": [ready]}
    await admin.request("PUT", clients.path("Node", None, name, sub="status"), body=found)


def _ready(found: dict[str, Any]) -> bool:
    conditions = found.get("status", {}).get("conditions") or ()
    return any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)


def template(gpus: int = 1, **pod: Any) -> dict[str, Any]:
    """A job's template whose pods want so many devices."""
    container = {"name": "trainer", "image": "x", "resources": {"limits": {GPU: str(gpus)}}}
    return {"spec": {"containers": [container], **pod}}
