"""Shared storage: volumes that every node can write to, on a folder that every node sees.

A claim of the class `elasticjob-shared` is bound to one of them. They are kept when the claim goes (a test may want to
look), and made anew, empty, when storage is asked for again.
"""

import json
from pathlib import Path
from typing import Any

from cluster import caching, clusters

CLASS = "elasticjob-shared"
VOLUMES = 16
SIZE = "1Gi"


def provide(cluster: clusters.Cluster, folder: Path, *, seen_as: str = "") -> None:
    """Have empty volumes in the cluster; `seen_as` is the folder's path on the nodes, where it is another."""
    names = [f"persistentvolume/{CLASS}-{number}" for number in range(1, VOLUMES + 1)]
    cluster.kubectl("delete", "--ignore-not-found", "--wait", "--timeout=60s", *names)
    caching.remove(folder)
    make_folders(folder)
    cluster.kubectl("apply", "--filename=-", input=manifests(seen_as or str(folder)))


def manifests(folder: str) -> str:
    """The storage class and its volumes, for `kubectl apply`; `folder` is where it is on the nodes."""
    volumes = [_volume(folder, number) for number in range(1, VOLUMES + 1)]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [_storage_class(), *volumes]})


def make_folders(folder: Path) -> None:
    """Make each volume's folder, empty, and writable for whatever user a pod runs as."""
    for number in range(1, VOLUMES + 1):
        volume = folder / str(number)
        volume.mkdir(parents=True, exist_ok=True)
        volume.chmod(0o777)


def _storage_class() -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "Immediate",
    }


def _volume(folder: str, number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{CLASS}-{number}"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": SIZE},
            "hostPath": {"path": f"{folder}/{number}", "type": "Directory"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": CLASS,
        },
    }
