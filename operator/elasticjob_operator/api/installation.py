"""What an installation lets jobs do, and what it adds to each: the chart's choice, the same for all jobs."""

import dataclasses

PRIVILEGES = (
    "hostPath", "hostNetwork", "hostPID", "hostIPC", "hostPort", "privileged", "capabilities", "serviceAccount",
)  # fmt: skip
"""What a pod template may ask for only where the installation allows it: each reaches beyond the job's own pods."""


ETCD_IMAGE = "registry.k8s.io/etcd:3.5.21-0"
"""Of the last series with the v2 API, which is what torch speaks."""


@dataclasses.dataclass(frozen=True)
class Installation:
    """The choice. The default is the strictest for templates, and adds nothing."""

    privileges: frozenset[str] = frozenset()
    network_policies: bool = False
    """Whether each job gets a NetworkPolicy: into its pods only from each other."""
    etcd_image: str = ETCD_IMAGE
    """What jobs that ask for an etcd of their own get."""
    disruption_budgets: bool = False
    """Whether each job gets a PodDisruptionBudget: evictions wait for a checkpoint."""
    packing: tuple[str, ...] = ()
    """Labels of cluster nodes by which a job's pods are drawn to each other, if at all; the narrowest first."""


STRICTEST = Installation()
