"""Cluster nodes that are drained or dead: the real eviction API, budget controller and watch of cluster nodes."""

import asyncio
import datetime as dt

from elasticjob_operator.kube import client as clients
from elasticjob_operator.kube import errors
from support import operator_nodes as nodes
from support.operator_cluster import Operator, cordon, evictable, until
from support.operator_job import Job
from support.operator_simulation import Simulation


async def evicted(admin: clients.Client, namespace: str, pod: str) -> bool:
    """Whether the eviction API lets the pod go."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
    try:
        await admin.request("POST", clients.path("Pod", namespace, pod, sub="eviction"), body=body)
    except errors.UnavailableError as error:
        if "disruption budget" not in error.message:
            raise
        return False
    return True


async def test_evictions_wait_for_the_checkpoint_that_a_cordon_asks_for(
    admin: clients.Client, simulation: Simulation, watching: Operator, node: str
) -> None:
    simulation.node = node
    job = Job(admin, simulation)
    await job.apply(nodes=2)
    await job.trains(2)

    assert not await evicted(admin, job.namespace, "digits-1-0")
    await cordon(admin, node)

    await until(lambda: evictable(admin, job.namespace, "digits"))
    simulation.paused.add("digits-1-0")  # a pod takes its time to end
    await until(lambda: evicted(admin, job.namespace, "digits-1-0"))
    (answered,) = [
        lease for lease in await admin.list("Lease", job.namespace) if lease["metadata"]["name"] == "digits-0"
    ]
    assert answered["metadata"]["annotations"]["elasticjob.dev/checkpointed"].startswith("leaving.1.")
    await job.comes_to("disruptions", 1)
    simulation.paused.clear()
    assert "Forbidden" not in watching.text


async def die(admin: clients.Client, node: str, kubelet: asyncio.Task[None]) -> None:
    """A cluster node is silent, and has been for long as the operator hears."""
    kubelet.cancel()
    await asyncio.wait([kubelet])
    long_ago = (dt.datetime.now(tz=dt.UTC) - dt.timedelta(seconds=200)).strftime("%Y-%m-%dT%H:%M:%SZ")
    silent = {"type": "Ready", "status": "Unknown", "lastTransitionTime": long_ago, "reason": "NodeStatusUnknown"}
    found = await admin.request("GET", f"/api/v1/nodes/{node}")
    del found["metadata"]["resourceVersion"]  # controllers write it meanwhile
    where = f"/api/v1/nodes/{node}/status"
    await admin.request("PUT", where, body={**found, "status": {**found["status"], "conditions": [silent]}})


async def test_a_pod_whose_cluster_node_is_dead_is_given_up_and_replaced_elsewhere(
    admin: clients.Client, simulation: Simulation, watching: Operator
) -> None:
    dead, elsewhere = "dead", "elsewhere"
    job = Job(admin, simulation)
    async with nodes.node(admin, dead, 0) as kubelet:
        simulation.node = dead
        await job.apply(nodes=1)
        await job.trains(1)

        simulation.paused.add("digits-0-0")  # nobody there ends it, and nobody says that it has
        async with nodes.node(admin, elsewhere, 0):
            simulation.node = elsewhere
            await die(admin, dead, kubelet)

            await job.comes_to("disruptions", 1)
            simulation.paused.clear()  # its successor may have its name
            status = await job.trains(1)
            assert [bad["name"] for bad in status["badClusterNodes"]] == [dead]
            (pod,) = await simulation.pods()
            assert pod["spec"]["nodeName"] == elsewhere
            assert "PodGivenUp" in watching.text
