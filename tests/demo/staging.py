"""Setting the stage: a cluster of three nodes, the images, the operator installed with Helm, a namespace for the job.

The demo and the end-to-end tests set up with the same calls. What takes long tells its progress (`cluster.progress`).
"""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

from cluster import ClusterError, progress, providers

if TYPE_CHECKING:
    from cluster.clusters import Cluster

CHART = pathlib.Path(__file__).parents[2] / "charts" / "elasticjob"
RELEASE = "elasticjob"
OPERATOR_NAMESPACE = "elasticjob-system"
NODES = 3
GPUS = 2
"""A node, pretended."""

RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
"""The namespace refuses pods that ask for privileges, so that what runs here runs in a strict cluster too."""


def left_by_an_earlier_one(name: str, namespace: str) -> bool:
    """Whether a demo that ran before is still there to look at. What can't be asked is none that anybody looks at."""
    try:
        cluster = providers.chosen().attach(name)
        return bool(cluster.kubectl("get", "namespace", namespace, "--ignore-not-found", "--output=name").strip())
    except ClusterError:
        return False


def bring_up(name: str) -> Cluster:
    """A fresh cluster with images and shared storage."""
    cluster = providers.chosen().up(name, nodes=NODES, gpus=GPUS)
    cluster.shared_storage()
    cluster.check()
    return cluster


def prepare(cluster: Cluster, namespace: str) -> None:
    """The operator, and a namespace for the job."""
    install_operator(cluster)
    make_namespace(cluster, namespace)


def install_operator(cluster: Cluster, *flags: str) -> None:
    """Install this repository's chart with Helm's *flags*, and wait until the operator is ready."""
    with progress.step("installing the operator: helm install elasticjob charts/elasticjob"):
        where = ("--namespace", OPERATOR_NAMESPACE, "--create-namespace")
        how = ("--set=image.tag=dev", *flags, "--wait", "--timeout=180s")
        cluster.helm("upgrade", "--install", RELEASE, CHART, *where, *how)


def make_namespace(cluster: Cluster, namespace: str) -> None:
    """A new namespace; one of this name that an earlier demo has left makes place for it."""
    cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found")
    cluster.kubectl("create", "namespace", namespace)
    cluster.kubectl("label", "namespace", namespace, RESTRICTED)
