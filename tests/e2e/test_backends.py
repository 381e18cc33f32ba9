"""torch's own backends in real pods: those that Debian's torch 2.6, which has no libuv, can use.

c10d and static can't there, for torch asks libuv of them; they run with the newest torch in the integration tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cluster import LocalCluster
from cluster.images import etcd, layouts
from support import plain_torchrun

if TYPE_CHECKING:
    import pathlib

    from cluster.clusters import Cluster
    from demo.story import Scene

MANAGED = {"etcd": {"managed": True}}
BACKENDS: dict[str, dict[str, Any]] = {"kubernetes-dynamic": {}, "etcd-v2": MANAGED, "etcd": MANAGED}
IMAGE = "docker.io/elasticjob/trainer:dev"


def job(backend: str, more: dict[str, Any]) -> dict[str, Any]:
    """Two nodes that train a few steps. The file that would end it is there from the beginning."""
    container = {
        "name": "trainer",
        "image": IMAGE,
        "command": ["torchrun", "/scripts/train.py", "/scripts/train.py"],
        "env": [{"name": "USE_LIBUV", "value": "0"}],
        "volumeMounts": [{"name": "scripts", "mountPath": "/scripts"}],
    }
    pod = {"containers": [container], "volumes": [{"name": "scripts", "configMap": {"name": "scripts"}}]}
    spec = {"minNodes": 2, "maxNodes": 2, "rendezvous": {"backend": backend, **more}, "template": {"spec": pod}}
    return {
        "apiVersion": "elasticjob.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": backend},
        "spec": spec,
    }


@pytest.fixture
def etcd_image(cluster: Cluster, tmp_path: pathlib.Path) -> None:
    """The image that the operator gives to jobs with an etcd of their own, on every node."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("the image of etcd is built and given to the local cluster only")
    archive = tmp_path / "etcd.tar"
    with archive.open("wb") as output:
        layouts.store().stream([etcd.image()], output)
    cluster.import_image(archive)


@pytest.mark.usefixtures("etcd_image")
def test_two_nodes_train_with_each_backend(scene: Scene) -> None:
    script = plain_torchrun.WORKER
    scene.run("create", "configmap", "scripts", f"--from-file=train.py={script}")
    manifests = yaml.safe_dump_all(job(*backend) for backend in BACKENDS.items())
    scene.kubectl("--namespace", scene.view.namespace, "apply", "--filename=-", input=manifests)

    names = [f"elasticjob/{name}" for name in BACKENDS]
    scene.run("wait", *names, "--for=condition=Succeeded", "--timeout=600s")

    for name in BACKENDS:
        logs = scene.run("logs", f"--selector=elasticjob.dev/job-name={name},elasticjob.dev/slot", "--tail=-1")
        assert sorted(plain_torchrun.first_steps(logs)) == [(0, 2, 2), (1, 2, 2)], logs
        where = ("get", f"elasticjob/{name}", "--output=jsonpath={.status.restarts} {.status.failures}")
        assert scene.run(*where) == "0 0"
    left = scene.run("get", "pods", "--selector=elasticjob.dev/part=etcd", "--output=name")
    scene.run("wait", *left.split(), "--for=delete", "--timeout=300s") if left else None
