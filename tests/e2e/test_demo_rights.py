"""Who may do what: a worker its own job's ConfigMap and Leases and nothing else; a stranger may not reach a worker.

That nobody tries what it may not is asked of each cluster in the end: see `cluster` in conftest.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from kubernetes import client, config

from cluster import LocalCluster, waiting
from cluster.images import building
from demo import story
from support import e2e_audit, e2e_scenes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.clusters import Cluster
    from demo.story import Scene

CORE, LEASES = "/api/v1/namespaces/{}", "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
JOBS = "/apis/elasticjob.dev/v1alpha1/namespaces/{}/elasticjobs"


@pytest.fixture
def worker(cluster: Cluster, scene: Scene) -> Iterator[client.ApiClient]:
    """The API as a worker of the job `digits` sees it: with its ServiceAccount's token and nothing else."""
    scene.run("apply", "-f", str(story.MANIFEST))
    scene.wait("the job's pods", lambda: scene.pods)
    scene.run("create", "configmap", "other-rendezvous")
    token = scene.run("create", "token", f"{story.JOB}-worker").strip()
    admin = config.new_client_from_config(str(cluster.kubeconfig), persist_config=False)  # type: ignore[no-untyped-call]
    settings = client.Configuration(host=admin.configuration.host)
    settings.ssl_ca_cert = admin.configuration.ssl_ca_cert
    settings.api_key = {"authorization": f"Bearer {token}"}
    with client.ApiClient(settings) as api:
        own = f"{CORE}/configmaps/{story.JOB}-rendezvous".format(scene.view.namespace)
        waiting.until(
            "the API server to know of its Role", lambda: answer(api, "GET", own) == 200, seconds=story.PATIENCE
        )
        yield api


def answer(api: client.ApiClient, method: str, path: str) -> int:
    """The status of one request."""
    headers = {"User-Agent": e2e_audit.INTRUDER, "Authorization": api.configuration.api_key["authorization"]}
    body = {"metadata": {"name": "mine"}} if method == "POST" else None
    url = api.configuration.host + path
    status: int = api.rest_client.request(method, url, headers, body).status  # type: ignore[no-untyped-call]
    return status


def test_a_worker_may_use_its_own_rendezvous_and_nothing_else(
    worker: client.ApiClient, scene: Scene, cluster: Cluster
) -> None:
    expected = {
        ("GET", f"{CORE}/configmaps/digits-rendezvous"): 200,
        ("GET", f"{LEASES}/digits-0"): 200,
        ("GET", f"{CORE}/configmaps/other-rendezvous"): 403,
        ("GET", f"{CORE}/configmaps"): 403,
        ("POST", f"{CORE}/configmaps"): 403,
        ("DELETE", f"{CORE}/configmaps/digits-rendezvous"): 403,
        ("GET", f"{LEASES}/other-0"): 403,
        ("DELETE", f"{LEASES}/digits-0"): 403,
        ("GET", f"{CORE}/secrets"): 403,
        ("GET", f"{CORE}/secrets/any"): 403,
        ("GET", f"{CORE}/pods"): 403,
        ("DELETE", f"{CORE}/pods/digits-0-0"): 403,
        ("GET", f"{JOBS}/digits"): 403,
        ("GET", "/api/v1/nodes"): 403,
    }
    seen = {(method, path): answer(worker, method, path.format(scene.view.namespace)) for method, path in expected}

    assert seen == expected
    refused = f"system:serviceaccount:{scene.view.namespace}:{story.JOB}-worker"
    if isinstance(cluster, LocalCluster):
        assert {e2e_audit.OPERATOR, refused} <= e2e_audit.users(cluster.audit_log)


SECURITY = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
STRANGER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "stranger"},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": building.OPERATOR.reference,
                "command": ["python3", "-m", "http.server"],
                "securityContext": CONTAINER_SECURITY,
            }
        ],
        "securityContext": SECURITY,
        "terminationGracePeriodSeconds": 0,
    },
}
TOGETHER = {
    "apiVersion": "elasticjob.dev/v1alpha1",
    "kind": "ElasticJob",
    "metadata": {"name": story.JOB},
    "spec": {
        "minNodes": 2,
        "maxNodes": 2,
        "template": {
            "spec": {
                "affinity": e2e_scenes.APART,
                "containers": [
                    {
                        "name": "trainer",
                        "image": building.TRAINER.reference,
                        "command": ["torchrun", "--no-python", "sh", "-c", "echo together; sleep 9999"],
                    }
                ],
            }
        },
    },
}
"""Two nodes whose workers start when both have checked in at rank 0's store."""

KNOCK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], sys.argv[2]), timeout=3)
    print("let in")
except OSError:
    print("kept out")
"""


def knocking(scene: Scene) -> str:
    """How a pod in the job's own namespace fares at rank 0's store."""
    record = scene.view.history.record
    assert record is not None
    address, _, port = record.store.rpartition(":")
    return scene.run("exec", "stranger", "--", "python3", "-c", KNOCK, address, port).strip()


def test_where_policies_are_enforced_a_jobs_pods_are_let_in_to_each_other_and_nobody_else_is(
    local: LocalCluster, scene: Scene
) -> None:
    with local.enforcing_policies():
        manifests = yaml.safe_dump_all([STRANGER, TOGETHER])
        scene.kubectl("--namespace", scene.view.namespace, "apply", "--filename=-", input=manifests)
        scene.run("wait", "pod/stranger", "--for=condition=Ready", f"--timeout={story.PATIENCE:g}s")
        job = f"--selector=elasticjob.dev/job-name={story.JOB}"
        scene.wait("the pods to meet", lambda: scene.run("logs", job, "--ignore-errors").count("together") > 1)

        scene.wait("a stranger to be kept out", lambda: knocking(scene) == "kept out")

    scene.wait("the stranger to be let in without", lambda: knocking(scene) == "let in")
