"""Cluster nodes: real pods, their network and storage, and what becomes of a node that is killed or cut off.

Only pods of the operator's image are started, as the smallest with Python in it, and none of a job.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import ClusterError, LocalCluster, cgroups, tools, waiting
from cluster.clusters import Cluster
from cluster.images import building, layouts, pause, stocks
from demo import staging
from demo.staging import GPUS

SECONDS = 240
RESOLVER_TIMEOUT = 5
"""Seconds that a resolver waits for an answer before it asks again (resolv.conf(5), ``timeout``)."""

NAMESPACE = "pods"

# What a pod needs in a namespace of the "restricted" Pod Security Standard.
POD_SECURITY = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}

ASK_THE_API = """
import json, os, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
context = ssl.create_default_context(cafile=folder + "ca.crt")
url = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
request = urllib.request.Request(
    f"{url}/apis/authentication.k8s.io/v1/selfsubjectreviews",
    data=json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode(),
    headers={"Authorization": "Bearer " + open(folder + "token").read(), "Content-Type": "application/json"},
)
print(json.load(urllib.request.urlopen(request, context=context, timeout=10))["status"]["userInfo"]["username"])
"""

LOOK_UP = """
import socket, sys, time
began = time.monotonic()
try:
    found = socket.getaddrinfo(sys.argv[1], 80, proto=socket.IPPROTO_TCP)[0][4][0]
except socket.gaierror as error:
    found = next(name for name in ("EAI_NONAME", "EAI_AGAIN", "EAI_FAIL") if getattr(socket, name) == error.errno)
print(found, time.monotonic() - began)
"""

HEADLESS = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "headless", "namespace": NAMESPACE},
    "spec": {"clusterIP": "None", "selector": {"app": "pods"}, "ports": [{"port": 8000}]},
}


@pytest.fixture(scope="module", autouse=True)
def pods(cluster: Cluster) -> Iterator[None]:
    """On each of three nodes one that waits for commands."""
    if not isinstance(cluster, LocalCluster):  # as `local` says of each test
        yield
        return
    staging.make_namespace(cluster, NAMESPACE)
    cluster.kubectl("apply", "--filename=-", input=json.dumps(claim()))
    start_pods(cluster, "node-1", "node-2", "node-3")
    yield
    cluster.kubectl("delete", "namespace", NAMESPACE)


def claim() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "shared", "namespace": NAMESPACE},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "elasticjob-shared",
            "resources": {"requests": {"storage": "100Mi"}},
        },
    }


def pod(node: str) -> dict[str, Any]:
    """A pod on a node of its own, with one of its GPUs and a web server that shows what it shares."""
    container = {
        "name": "main",
        "image": building.OPERATOR.reference,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "http.server", "8000", "--directory=/shared"],
        "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1},
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"on-{node}", "namespace": NAMESPACE, "labels": {"app": "pods"}},
        "spec": {
            "containers": [container],
            "hostname": f"on-{node}",
            "subdomain": "headless",
            "nodeSelector": {"kubernetes.io/hostname": node},
            "securityContext": POD_SECURITY,
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}],
        },
    }


def start_pods(local: LocalCluster, *nodes: str) -> None:
    for node in nodes:
        local.kubectl("apply", "--filename=-", input=json.dumps(pod(node)))
    names = [f"pod/on-{node}" for node in nodes]
    local.kubectl("wait", f"--namespace={NAMESPACE}", "--for=condition=Ready", f"--timeout={SECONDS}s", *names)


def run_in(local: LocalCluster, node: str, *command: str) -> str:
    return local.kubectl("exec", f"--namespace={NAMESPACE}", f"on-{node}", "--", *command)


def field(local: LocalCluster, what: str, path: str) -> str:
    return local.kubectl("get", f"--namespace={NAMESPACE}", what, f"--output=jsonpath={path}")


def await_ready(local: LocalCluster, node: str, status: str) -> None:
    path = "{.status.conditions[?(@.type=='Ready')].status}"
    waiting.until(
        f"{node}'s Ready to be {status}", lambda: field(local, f"node/{node}", path) == status, seconds=SECONDS
    )


def fetch(url: str) -> str:
    return f"import urllib.request; print(urllib.request.urlopen({url!r}, timeout=10).read().decode())"


def test_every_node_offers_the_gpus_it_pretends_to_have(local: LocalCluster) -> None:
    offered = field(local, "nodes", "{.items[*].status.allocatable.nvidia\\.com/gpu}")

    assert offered.split() == [str(GPUS)] * 3


@pytest.mark.parametrize("node", ["node-1", "node-2", "node-3"])
def test_a_pod_reaches_the_api_through_its_service_with_its_token(local: LocalCluster, node: str) -> None:
    said = run_in(local, node, "python3", "-c", ASK_THE_API)

    assert said.strip() == f"system:serviceaccount:{NAMESPACE}:default"


@pytest.mark.parametrize(("here", "there"), [("node-1", "node-2"), ("node-2", "node-3"), ("node-3", "node-1")])
def test_pods_talk_across_nodes(local: LocalCluster, here: str, there: str) -> None:
    address = field(local, f"pod/on-{there}", "{.status.podIP}")
    run_in(local, there, "python3", "-c", f"open('/shared/{there}', 'w').write('hello from {there}')")

    said = run_in(local, here, "python3", "-c", fetch(f"http://{address}:8000/{there}"))

    assert said.strip() == f"hello from {there}"


def test_a_service_leads_to_its_pods_from_any_node(local: LocalCluster) -> None:
    local.kubectl(
        "expose", f"--namespace={NAMESPACE}", "pod/on-node-2", "--name=service", "--port=80", "--target-port=8000"
    )
    address = field(local, "service/service", "{.spec.clusterIP}")

    def answered() -> bool:
        try:
            return "Directory listing" in run_in(local, "node-1", "python3", "-c", fetch(f"http://{address}/"))
        except ClusterError:  # kube-proxy has not heard of it yet
            return False

    waiting.until("an answer", answered, seconds=SECONDS)


def test_what_a_pod_writes_to_shared_storage_every_pod_reads(local: LocalCluster) -> None:
    run_in(local, "node-1", "python3", "-c", "open('/shared/checkpoint', 'w').write('step 1')")

    assert run_in(local, "node-3", "python3", "-c", "print(open('/shared/checkpoint').read())").strip() == "step 1"


def test_logs_are_shown(local: LocalCluster) -> None:
    address = field(local, "pod/on-node-1", "{.status.podIP}")
    run_in(local, "node-1", "python3", "-c", fetch(f"http://{address}:8000/"))

    def shown() -> bool:
        return "GET / HTTP" in local.kubectl("logs", f"--namespace={NAMESPACE}", "on-node-1")

    waiting.until("what the server has said", shown, seconds=SECONDS)


def test_a_name_that_nobody_has_is_refused_at_once(local: LocalCluster) -> None:
    """Programs that look up names must not stand still for the resolver's time-outs."""
    said, seconds = run_in(local, "node-1", "python3", "-c", LOOK_UP, "no-such-host.invalid").split()

    assert said == "EAI_NONAME"
    assert float(seconds) < RESOLVER_TIMEOUT


def test_a_service_is_found_by_its_name(local: LocalCluster) -> None:
    service = json.loads(local.kubectl("get", "service", "kubernetes", "--output=json"))

    said, _ = run_in(local, "node-1", "python3", "-c", LOOK_UP, "kubernetes.default").split()

    assert said == service["spec"]["clusterIP"]


def test_a_pod_is_found_by_its_name_in_a_headless_service(local: LocalCluster) -> None:
    local.kubectl("apply", "--filename=-", input=json.dumps(HEADLESS))
    address = field(local, "pod/on-node-3", "{.status.podIP}")

    def found() -> str:
        return run_in(local, "node-1", "python3", "-c", LOOK_UP, "on-node-3.headless").split()[0]

    waiting.until("the pod's name to be known", lambda: found() == address, seconds=SECONDS, interval=0.5)


def test_a_node_that_is_killed_is_lost_and_comes_back_when_it_is_switched_on(local: LocalCluster) -> None:
    local.kill_node("node-3")
    await_ready(local, "node-3", "Unknown")

    local.start_node("node-3", gpus=GPUS)

    await_ready(local, "node-3", "True")
    local.kubectl("delete", "pod", f"--namespace={NAMESPACE}", "on-node-3", "--force", "--ignore-not-found")
    start_pods(local, "node-3")
    assert field(local, "node/node-3", "{.status.allocatable.nvidia\\.com/gpu}") == str(GPUS)


def test_a_node_that_is_cut_off_is_lost_while_its_pods_run_on_and_is_well_when_reconnected(local: LocalCluster) -> None:
    before = field(local, "pod/on-node-2", "{.status.containerStatuses[0].containerID}")
    local.cut_off("node-2")
    await_ready(local, "node-2", "Unknown")

    local.reconnect("node-2")

    await_ready(local, "node-2", "True")
    assert field(local, "pod/on-node-2", "{.status.containerStatuses[0].containerID}") == before
    run_in(local, "node-2", "true")


def test_a_node_is_added_while_the_cluster_runs(local: LocalCluster) -> None:
    name = local.add_node(gpus=GPUS)
    try:
        start_pods(local, name)

        assert name == "node-4"
        assert run_in(local, name, "python3", "-c", ASK_THE_API).strip() == f"system:serviceaccount:{NAMESPACE}:default"
        address = field(local, "pod/on-node-4", "{.status.podIP}")
        assert "Directory listing" in run_in(local, "node-1", "python3", "-c", fetch(f"http://{address}:8000/"))
    finally:  # others use the cluster afterwards, and count its GPUs
        local.kill_node(name)
        local.kubectl("delete", f"node/{name}")


def test_an_image_is_imported_while_the_cluster_runs(local: LocalCluster, tmp_path: Path) -> None:
    image = layouts.Image("docker.io/elasticjob/imported:1", pause.image().manifest)
    archive = tmp_path / "image.tar"
    with archive.open("wb") as output:
        layouts.store().stream([image], output)

    local.import_image(archive)

    for node in ("node-1", "node-2"):
        imported = pod(node)
        imported["metadata"]["name"] = f"imported-{node}"
        imported["spec"]["containers"] = [
            {"name": "main", "image": image.name, "imagePullPolicy": "Never", "securityContext": CONTAINER_SECURITY}
        ]
        local.kubectl("apply", "--filename=-", input=json.dumps(imported))
    names = ["pod/imported-node-1", "pod/imported-node-2"]
    local.kubectl("wait", f"--namespace={NAMESPACE}", "--for=condition=Ready", f"--timeout={SECONDS}s", *names)


def test_a_launcher_killed_while_it_unpacks_images_leaves_nothing_that_the_next_does_not_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tools.path("pause").parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # in the user's own somebody else may be unpacking as well
    importer = stocks._importer()
    script = "from cluster.images import pause, stocks; stocks.stocked([pause.image()])"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL) as launcher:
        waiting.until("the importer", lambda: importer.running, seconds=SECONDS, interval=0.001)
        launcher.kill()
    assert importer.running

    LocalCluster.stop("never-there")

    assert not importer.running
    assert not importer.home.exists()
    assert cgroups.existing(importer.group) == []


def test_one_of_the_projects_images_is_loaded_by_the_name_that_pods_use(local: LocalCluster) -> None:
    local.load_image(building.OPERATOR.reference)

    run_in(local, "node-1", "true")
