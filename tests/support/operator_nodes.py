"""Cluster nodes that are not there, with devices that are not there: Node objects that the real scheduler believes."""

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator
from typing import Any

from elasticjob_operator.kube import client as clients
from support.operator_cluster import until

GPU = "nvidia.com/gpu"


async def add(admin: clients.Client, name: str, gpus: int, **labels: str) -> None:
    """A cluster node that is ready, for as long as somebody renews its Lease (the controllers wait 40 s)."""
    head = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"test": name, **labels}}}
    found = await admin.request("POST", clients.path("Node", None), body=head)
    room = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: str(gpus)}
    ready = {"type": "Ready", "status": "True", "reason": "Pretended", "message": "", "lastHeartbeatTime": None}
    del found["metadata"]["resourceVersion"]  # controllers write it meanwhile
    found["status"] = {"capacity": room, "allocatable": room, "conditions": [ready]}
    await admin.request("PUT", clients.path("Node", None, name, sub="status"), body=found)

    async def open_to_pods() -> bool:
        node = await admin.request("GET", clients.path("Node", None, name))
        return not node["spec"].get("taints")

    await until(open_to_pods)


async def remove(admin: clients.Client, name: str) -> None:
    """It is gone."""
    await admin.request("DELETE", clients.path("Node", None, name))


@contextlib.asynccontextmanager
async def node(admin: clients.Client, name: str, gpus: int, **labels: str) -> AsyncIterator[None]:
    """A cluster node for as long as the block lasts."""
    await add(admin, name, gpus, **labels)
    beat = asyncio.create_task(_beat(admin, name))
    try:
        yield
    finally:
        beat.cancel()
        await remove(admin, name)


async def _beat(admin: clients.Client, name: str) -> None:
    """What a kubelet does to be taken for alive."""
    meta = {"name": name, "namespace": "kube-node-lease"}
    found = await admin.create("Lease", {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta})
    while True:
        now = dt.datetime.now(tz=dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        found["spec"] = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
        found = await admin.replace("Lease", found)
        await asyncio.sleep(10)


def template(gpus: int = 1, **pod: Any) -> dict[str, Any]:
    """A job's template whose pods want so many devices."""
    container = {"name": "trainer", "image": "x", "resources": {"limits": {GPU: str(gpus)}}}
    return {"spec": {"containers": [container], **pod}}
