"""A real Kubernetes for tests and for the demo, without Docker: see `local`; kind and existing clusters: `providers`."""

from cluster.errors import ClusterError
from cluster.local import LocalCluster

__all__ = ["ClusterError", "LocalCluster"]
