"""Who may do what: a worker its own job's ConfigMap and Leases and nothing else; and nobody tries what it may not."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from kubernetes import client, config

from cluster import LocalCluster
from demo import staging, story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.clusters import Cluster
    from demo.story import Scene

INTRUDER = "elasticjob-intruder"
"""The user agent of requests that are made to be refused."""

OURS = re.compile(rf"system:serviceaccount:({staging.OPERATOR_NAMESPACE}:.*|.*-worker)")
"""Who belongs to the product: the operator and the jobs' workers."""

ENDING = "because it is being terminated"
"""In a namespace that goes nobody may create anything: no question of rights."""

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
        yield api


def answer(api: client.ApiClient, method: str, path: str) -> int:
    """The status of one request."""
    headers = {"User-Agent": INTRUDER, "Authorization": api.configuration.api_key["authorization"]}
    body = {"metadata": {"name": "mine"}} if method == "POST" else None
    url = api.configuration.host + path
    status: int = api.rest_client.request(method, url, headers, body).status  # type: ignore[no-untyped-call]
    return status


def test_a_worker_may_use_its_own_rendezvous_and_nothing_else(worker: client.ApiClient, scene: Scene) -> None:
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


def test_nobody_was_refused_anything_that_the_product_tried(
    cluster: Cluster, outages: list[tuple[datetime, datetime]]
) -> None:
    """Over the whole run so far: this file comes last among the demo's.

    An API server that starts answers 403 to everybody until it has read the roles, which its `/readyz` waits for.
    """
    if not isinstance(cluster, LocalCluster):
        pytest.skip("only the local cluster's audit log is at hand")
    requests = [
        event
        for event in map(json.loads, cluster.audit_log.read_text().splitlines())
        if OURS.fullmatch(event["user"]["username"]) and event.get("userAgent") != INTRUDER
    ]
    refused = [
        f"{event['user']['username']} {event['verb']} {event['requestURI']}"
        for event in requests
        if event.get("responseStatus", {}).get("code") == 403
        and ENDING not in event["responseStatus"].get("message", "")
        and not any(
            began <= datetime.fromisoformat(event["requestReceivedTimestamp"]) <= ended for began, ended in outages
        )
    ]

    assert len({event["user"]["username"] for event in requests}) >= 2  # the operator and a job's workers
    assert refused == []
