"""A namespace that is deleted with a job in it, by Kubernetes' own controller."""

import uuid
from datetime import UTC, datetime

from cluster import LocalCluster
from elasticjob_operator.kube import client as clients
from support import audit, audit_invariants
from support import operator_builders as build
from support.operator_cluster import Operator, until
from support.operator_job import Job
from support.operator_simulation import Simulation, acting

QUICKLY = {**build.TEMPLATE, "spec": {**build.TEMPLATE["spec"], "terminationGracePeriodSeconds": 1}}
"""The controller waits as long as pods may take to end."""

LOOKS = 30
"""Writes that may be tried where none is wanted any more: a few for each of ten objects that go, mostly four in all.
A loop would make as many in a second, and there are several until the other job is resized.
"""


def tried(control_plane: LocalCluster, namespace: str, since: datetime) -> list[str]:
    """What the operator has tried to write there."""
    asked = [
        one for one in audit.entries(control_plane.audit_log, naming=namespace) if one["stage"] == "ResponseComplete"
    ]
    own = [one for one in asked if audit.user(one) == audit_invariants.OPERATOR and one["verb"] not in ("get", "list")]
    return [
        f"{one['requestReceivedTimestamp']} {one['verb']} {one['requestURI']} {audit.code(one)}"
        for one in own
        if one["objectRef"].get("namespace") == namespace
        and datetime.fromisoformat(one["requestReceivedTimestamp"]) > since
    ]


async def test_the_end_of_a_namespace_ends_its_job_and_disturbs_no_other(
    admin: clients.Client, control_plane: LocalCluster, operator: Operator, simulation: Simulation
) -> None:
    other, name = Job(admin, simulation), f"ending-{uuid.uuid4().hex[:8]}"
    operator.start()
    await other.apply(nodes=2)
    before = await other.trains(2)
    await admin.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    job = Job(admin, Simulation(admin, name))
    async with acting(job.simulation):
        await job.apply(nodes=2, template=QUICKLY)
        await job.trains(2)
        began = datetime.now(UTC)
        await admin.request("DELETE", f"/api/v1/namespaces/{name}")

        await until(lambda: gone(admin, name))

    await other.scale(3)
    after = await other.trains(3)
    assert after["round"] == before["round"] + 1
    vain = tried(control_plane, name, began)
    assert len(vain) <= LOOKS, vain
    assert "ERROR" not in operator.text


async def gone(admin: clients.Client, namespace: str) -> bool:
    found = await admin.request("GET", "/api/v1/namespaces")
    return namespace not in {one["metadata"]["name"] for one in found["items"]}
