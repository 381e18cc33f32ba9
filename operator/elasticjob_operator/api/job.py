"""An ElasticJob as one frozen value: who it is, what it asks for, what was known of it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from elasticjob_operator.api import names, spec, status, times
from elasticjob_operator.api.allocation import Allocation


@dataclasses.dataclass(frozen=True)
class Job:
    """One ElasticJob as it was read. ``spec`` is the error's text where the object's could not be understood."""

    namespace: str
    name: str
    uid: str
    generation: int
    deleting: bool
    spec: spec.Spec | str
    status: status.Status
    created: int = 0
    """When the object was made."""


def parse(data: Mapping[str, Any]) -> Job:
    """The value of an ElasticJob object."""
    meta = data["metadata"]
    try:
        wish: spec.Spec | str = spec.parse(data.get("spec") or {})
    except spec.SpecError as error:
        wish = str(error)
    return Job(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        generation=meta.get("generation", 1),
        deleting=bool(meta.get("deletionTimestamp")),
        spec=wish,
        status=status.parse(data.get("status")),
        created=times.parse(meta.get("creationTimestamp")) or 0,
    )


def given(job: Job, allocation: Allocation | None) -> Job:
    """The job with this allocation in its status."""
    return dataclasses.replace(job, status=dataclasses.replace(job.status, allocation=allocation))


def owner(job: Job) -> dict[str, Any]:
    """The owner reference of the job's objects: it deletes them with the job, and tells them from others' objects.

    ``blockOwnerDeletion`` is left out: it would need the right to update the job's finalizers.
    """
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
    }


def head(job: Job, version: str, kind: str, name: str) -> dict[str, Any]:
    """What an object of the job begins with; the pods of its nodes say more."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": names.labels(job.name),
            "ownerReferences": [owner(job)],
        },
    }


def owns(job: Job, data: Mapping[str, Any]) -> bool:
    """Whether this object is the job's own, by UID: an equal name or label proves nothing."""
    return any(ref.get("uid") == job.uid for ref in data["metadata"].get("ownerReferences") or ())
