"""What protects a job's pods from others: a NetworkPolicy that lets only each other in.

torch's stores and collectives ask nobody who they are, so whoever can reach a worker's ports can disturb the training.
Egress stays open: where training data comes from is not for the operator to know.
"""

from typing import Any

from elasticjob_operator.api import job as jobs
from elasticjob_operator.api import names


def network_policy(job: jobs.Job) -> dict[str, Any]:
    """The job's NetworkPolicy. Its name is the ServiceAccount's: one name for all that the pods are given."""
    pods = {"matchLabels": names.labels(job.name)}
    return {
        **jobs.head(job, "networking.k8s.io/v1", "NetworkPolicy", names.worker(job.name)),
        "spec": {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": pods}]}]},
    }


HELD = 1024
"""``minAvailable`` of a budget that lets nobody go: as many as a job can have. A number rather than ``maxUnavailable``,
for which Kubernetes would have to ask how many pods are wanted."""


def disruption_budget(job: jobs.Job, *, least: int, version: str = "") -> dict[str, Any]:
    """The job's PodDisruptionBudget: evictions wait until a checkpoint is there (``leaving``).

    A pod that is not ready, and so takes no part in training, may always be evicted.
    """
    head = jobs.head(job, "policy/v1", "PodDisruptionBudget", names.worker(job.name))
    head["metadata"] |= {"resourceVersion": version} if version else {}
    return {
        **head,
        "spec": {
            "selector": {"matchLabels": names.labels(job.name)},
            "minAvailable": least,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
