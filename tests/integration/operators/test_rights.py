"""What a job's pods may do, and what they may not; and what the operator has done with its own rights."""

import json
import pathlib
from collections.abc import AsyncIterator

import pytest

from cluster import LocalCluster
from elasticjob_operator.kube import client as clients
from elasticjob_operator.kube import errors
from support import audit
from support import operator_builders as build
from support.operator_cluster import Operator, connect, cordon, evictable, kubeconfig_of, until
from support.operator_job import Job
from support.operator_simulation import Simulation


@pytest.fixture
async def worker(
    control_plane: LocalCluster,
    admin: clients.Client,
    simulation: Simulation,
    operator: Operator,
    tmp_path: pathlib.Path,
) -> AsyncIterator[clients.Client]:
    """What a pod of the job ``digits`` can reach the API with, while it trains."""
    operator.start()
    job = Job(admin, simulation)
    await job.apply(nodes=2)
    await job.trains(2)
    access = kubeconfig_of(control_plane, tmp_path / "worker", account="digits-worker", namespace=simulation.namespace)
    client = await connect(access)
    yield client
    await client.close()


async def test_a_worker_can_do_what_the_rendezvous_needs(worker: clients.Client, namespace: str) -> None:
    by_name = {"fieldSelector": "metadata.name=digits-rendezvous"}

    record = await worker.get("ConfigMap", namespace, "digits-rendezvous")
    listed = await worker.request("GET", clients.path("ConfigMap", namespace), query=by_name)
    leases = await worker.list("Lease", namespace, "elasticjob.dev/job-name=digits")
    own = await worker.get("Lease", namespace, "digits-3")

    assert record is not None
    assert own is not None
    assert [item["metadata"]["name"] for item in listed["items"]] == ["digits-rendezvous"]
    assert len(leases) == 4
    await worker.replace("Lease", own)
    with pytest.raises(errors.ConflictError):  # allowed, but late: the agents are quicker
        await worker.replace("ConfigMap", {**record, "metadata": {**record["metadata"], "resourceVersion": "1"}})


FORBIDDEN = {
    "another job's round": ("GET", "ConfigMap", "other-rendezvous"),
    "all ConfigMaps": ("GET", "ConfigMap", ""),
    "another job's Lease": ("PUT", "Lease", "other-0"),
    "deleting its own Lease": ("DELETE", "Lease", "digits-0"),
    "making Leases": ("POST", "Lease", ""),
    "making ConfigMaps": ("POST", "ConfigMap", ""),
    "pods": ("GET", "Pod", ""),
    "making pods": ("POST", "Pod", ""),
    "its own Role": ("PUT", "Role", "digits-worker"),
    "the job itself": ("GET", "ElasticJob", "digits"),
}


async def test_a_worker_can_do_nothing_else(worker: clients.Client, namespace: str) -> None:
    paths = [(method, clients.path(kind, namespace, name)) for method, kind, name in FORBIDDEN.values()]

    for method, path in (*paths, ("GET", f"/api/v1/namespaces/{namespace}/secrets"), ("GET", "/api/v1/nodes")):
        with pytest.raises(errors.ForbiddenError):
            await worker.request(method, path, body={} if method != "GET" else None)


async def test_the_operator_is_refused_nothing_and_uses_all_its_rights(
    control_plane: LocalCluster, admin: clients.Client, simulation: Simulation, watching: Operator, node: str
) -> None:
    simulation.node = node
    job = Job(admin, simulation)
    await job.apply(nodes=2)
    await job.trains(2)
    await cordon(admin, node)
    await until(lambda: evictable(admin, job.namespace, "digits"))
    await cordon(admin, node, cordoned=False)
    await simulation.remove("digits-1-0")
    await job.comes_to("disruptions", 1)
    await job.trains(2)
    await job.scale(1)
    await job.trains(1)

    async def surplus_is_gone() -> bool:
        return len(await simulation.pods()) == 1

    await until(surplus_is_gone)
    await job.edit(maxNodes=2)

    async def leases_are_gone() -> bool:
        return len(await admin.list("Lease", job.namespace)) == 2

    await until(leases_are_gone)
    other = build.manifest("other", rendezvous={"backend": "c10d"})
    await admin.create("ElasticJob", {**other, "metadata": {**other["metadata"], "namespace": job.namespace}})

    async def other_has_a_place_to_meet() -> bool:
        return await admin.get("Service", job.namespace, "other-rendezvous") is not None

    await until(other_has_a_place_to_meet)
    job.simulation.finishing = True
    await job.reaches("Succeeded")
    await job.edit(ttlSecondsAfterFinished=0)

    async def job_is_gone() -> bool:
        return await admin.get("ElasticJob", job.namespace, "digits") is None

    await until(job_is_gone)
    account = "system:serviceaccount:elasticjob-system:elasticjob"
    lines = audit.entries(control_plane.audit_log)
    mine = [line for line in lines if audit.user(line) == account and line.get("responseStatus")]

    assert [line["requestURI"] for line in mine if audit.unauthorized(line)] == []
    used = {
        (verb, ref["resource"] + ("/" + ref["subresource"] if ref.get("subresource") else ""))
        for line in mine
        if (ref := line.get("objectRef")) and (verb := line["verb"])
    }
    role = json.loads(control_plane.kubectl("get", "clusterrole", "elasticjob", "-o", "json"))
    granted = {(verb, resource) for rule in role["rules"] for verb in rule["verbs"] for resource in rule["resources"]}
    assert granted - used <= {("get", "pods")}  # for an accident: a pod's name that is taken already
