"""Which kind of cluster is used: the local one, unless the environment names another."""

import os

from cluster import clusters, current, errors, kind, local

VARIABLE = "CLUSTER"
KINDS: dict[str, type[clusters.Cluster]] = {
    "local": local.LocalCluster,
    "kind": kind.KindCluster,
    "current": current.CurrentCluster,
}


def chosen() -> type[clusters.Cluster]:
    """The kind of cluster that the environment asks for."""
    wanted = os.environ.get(VARIABLE) or "local"
    if wanted not in KINDS:
        raise errors.ClusterError(f"{VARIABLE}={wanted} is none of {', '.join(KINDS)}")
    return KINDS[wanted]
