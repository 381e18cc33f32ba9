"""Every name, label and annotation that the operator gives or reads: each is made in one place only.

The names of a job's objects are functions of the job's name, so that a repeated create meets the first one's object
instead of making a second. They are believed only together with the owner's UID.
"""

import re

from elasticjob_rendezvous.round import lease

GROUP = "elasticjob.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "ElasticJob"
PLURAL = "elasticjobs"

JOB_LABEL = lease.JOB_LABEL
SLOT_LABEL = lease.SLOT_LABEL
MANAGED_BY_LABEL = lease.MANAGED_BY_LABEL
MANAGED_BY = lease.MANAGED_BY
TEMPLATE_ANNOTATION = lease.PREFIX + "template"
"""Digest of the template that a pod was made from: one that has not started yet is replaced when it changes."""

RUN_ANNOTATION = lease.PREFIX + "run"
"""Which run of the job's group a pod belongs to, with a backend whose agents tell the operator nothing."""

PART_LABEL = lease.PREFIX + "part"
"""On pods of the job that are none of its nodes."""

SELECTOR = f"{MANAGED_BY_LABEL}={MANAGED_BY},{JOB_LABEL}"
"""What the operator watches: its own objects, whichever the job."""

SLOT_ENV = "ELASTICJOB_SLOT"
"""The variable that tells a pod's training container its slot."""

TRAINER = "trainer"
"""The container that runs torchrun, where no container has this name it is the first."""

_POD = re.compile(r"(?P<job>.+)-(?P<slot>0|[1-9]\d*)-(?P<number>0|[1-9]\d*)")


def config_map(job: str) -> str:
    """The ConfigMap that holds the job's round record."""
    return f"{job}-rendezvous"


def slot_lease(job: str, slot: int) -> str:
    """The Lease of one slot."""
    return f"{job}-{slot}"


def rendezvous_service(job: str) -> str:
    """The Service by whose name agents find slot 0's store, with a backend that has one."""
    return f"{job}-rendezvous"


def dynamic(job: str) -> str:
    """The ConfigMap of torch's own dynamic handler."""
    return f"{job}-dynamic"


def etcd(job: str) -> str:
    """The job's own etcd: its pod and its Service."""
    return f"{job}-etcd"


def worker(job: str) -> str:
    """The pods' ServiceAccount, their Role and its RoleBinding."""
    return f"{job}-worker"


def pod(job: str, slot: int, number: int) -> str:
    """The *number*-th pod of one slot."""
    return f"{job}-{slot}-{number}"


def pod_place(job: str, name: str) -> tuple[int, int] | None:
    """Slot and number in a pod's name; ``None`` for a name that is not of this job."""
    found = _POD.fullmatch(name)
    return (int(found["slot"]), int(found["number"])) if found and found["job"] == job else None


def labels(job: str, slot: int | None = None) -> dict[str, str]:
    """The labels of a job's object, and of one slot's."""
    common = {MANAGED_BY_LABEL: MANAGED_BY, JOB_LABEL: job}
    return common if slot is None else {**common, SLOT_LABEL: str(slot)}


def selector(job: str) -> str:
    """What finds the objects of one job."""
    return f"{MANAGED_BY_LABEL}={MANAGED_BY},{JOB_LABEL}={job}"
