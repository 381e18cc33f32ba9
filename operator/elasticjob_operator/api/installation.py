"""What an installation lets jobs do, and what it adds to each: the chart's choice, the same for all jobs."""

import dataclasses

PRIVILEGES = (
    "hostPath", "hostNetwork", "hostPID", "hostIPC", "hostPort", "privileged", "capabilities", "serviceAccount",
)  # fmt: skip
"""What a pod template may ask for only where the installation allows it: each reaches beyond the job's own pods."""


@dataclasses.dataclass(frozen=True)
class Installation:
    """The choice. The default is the strictest for templates, and adds nothing."""

    privileges: frozenset[str] = frozenset()
    network_policies: bool = False
    """Whether each job gets a NetworkPolicy: into its pods only from each other."""


STRICTEST = Installation()
