"""A real Kubernetes for tests and for the demo, without Docker (`local`); or kind, or an existing one (`providers`)."""

from cluster.errors import ClusterError
from cluster.local import LocalCluster

__all__ = ["ClusterError", "LocalCluster"]
