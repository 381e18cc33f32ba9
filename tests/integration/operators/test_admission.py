"""Somebody else's admission changes each pod of a job: the operator takes it as it is, and never makes it anew."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import datetime, timezone
from typing import Any

import pytest

from cluster import LocalCluster
from elasticjob_operator.kube import client as clients
from elasticjob_operator.kube import errors
from support import audit, audit_invariants
from support.operator_cluster import Operator, until
from support.operator_job import Job
from support.operator_simulation import Simulation

POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"

LOOKS = 3
"""How often the operator is made to look at a job that needs nothing: once a second."""

EXPRESSION = """
Object{
  metadata: Object.metadata{labels: {"mesh": "on"}},
  spec: Object.spec{
    containers: [Object.spec.containers{name: "proxy", image: "mesh/proxy:1"}]
  }
}
"""


@pytest.fixture
async def meshed(admin: clients.Client, namespace: str) -> AsyncIterator[str]:
    """A namespace whose new pods are given a side car and a label."""
    name = f"mesh-{uuid.uuid4().hex[:8]}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    chosen = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    change = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": EXPRESSION}}
    spec = {
        "matchConstraints": {"namespaceSelector": chosen, "resourceRules": [rule]},
        "reinvocationPolicy": "IfNeeded",
        "failurePolicy": "Fail",
        "mutations": [change],
    }
    await admin.request("POST", POLICIES, body={"metadata": {"name": name}, "spec": spec})
    await admin.request("POST", BINDINGS, body={"metadata": {"name": name}, "spec": {"policyName": name}})
    await until(lambda: _mutates(admin, namespace))
    yield namespace
    await admin.request("DELETE", f"{BINDINGS}/{name}")
    await admin.request("DELETE", f"{POLICIES}/{name}")


async def _mutates(admin: clients.Client, namespace: str) -> bool:
    """Whether the API server has taken the policy up, which takes it a moment."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "probe"}]},
    }
    try:
        made = await admin.request("POST", f"{clients.path('Pod', namespace)}?dryRun=All", body=pod)
    except errors.ForbiddenError:  # the namespace has not been given its ServiceAccount yet
        return False
    return _changed(made)


def _changed(pod: dict[str, Any]) -> bool:
    names = [container["name"] for container in pod["spec"]["containers"]]
    return "proxy" in names and pod["metadata"].get("labels", {}).get("mesh") == "on"


async def test_pods_that_admission_has_given_a_side_car_are_kept_and_nothing_is_written_at_rest(
    admin: clients.Client,
    meshed: str,
    simulation: Simulation,
    operator: Operator,
    control_plane: LocalCluster,
) -> None:
    operator.flags = ("--relist-seconds=1", *operator.flags)
    operator.start()
    job = Job(admin, simulation)
    await job.apply(nodes=2)
    await job.trains(2)
    made = await simulation.pods()

    async def rested() -> bool:
        since = datetime.now(timezone.utc)
        await asyncio.sleep(LOOKS)  # that nothing is written shows in time alone
        return not audit_invariants.unrest(audit.entries(control_plane.audit_log), meshed, since)

    await until(rested)
    kept = await simulation.pods()

    assert all(_changed(pod) for pod in kept)
    assert [pod["metadata"]["uid"] for pod in kept] == [pod["metadata"]["uid"] for pod in made]
