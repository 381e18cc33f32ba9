"""The cluster that the current kubeconfig points at: somebody else's, so nothing is created, changed or removed here.

Its nodes must be able to get the project's images, and it must have shared storage of its own.
"""

import os
from pathlib import Path

from cluster import clusters, errors, progress, storage


class CurrentCluster(clusters.Cluster):
    """An existing cluster."""

    @classmethod
    def up(cls, name: str, *, nodes: int, gpus: int) -> "CurrentCluster":  # noqa: ARG003 - they are what they are
        """Take the cluster as it is."""
        cluster = cls(name)
        found = cluster.kubectl("get", "nodes", "--output=name").split()
        progress.say(f"  the current cluster has {len(found)} nodes; it is taken as it is")
        return cluster

    @classmethod
    def attach(cls, name: str) -> "CurrentCluster":
        """The cluster, whatever it is called here."""
        return cls(name)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig in use."""
        named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
        file = Path(named) if named else Path.home() / ".kube" / "config"
        if not file.exists():
            raise errors.ClusterError(f"CLUSTER=current, but there is no kubeconfig {file}")
        return file

    def load_image(self, reference: str) -> None:
        """Say what is needed: how an image gets to foreign nodes is their owner's affair."""
        progress.say(
            f"  {reference} must be there for the cluster's nodes; build it with Docker from images/ and push it"
        )

    def shared_storage(self) -> None:
        """Check that the storage class is there."""
        classes = self.kubectl("get", "storageclasses", "--output=name").split()
        if f"storageclass.storage.k8s.io/{storage.CLASS}" not in classes:
            raise errors.ClusterError(
                f"the current cluster has no storage class {storage.CLASS}; make one that has ReadWriteMany"
            )

    @classmethod
    def stop(cls, name: str) -> None:  # noqa: ARG003 - there is only one
        """Leave the cluster as it is."""
        progress.say("  the current cluster is not ours to take down")
