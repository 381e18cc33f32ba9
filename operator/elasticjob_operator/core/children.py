"""A job's objects other than its pods: what they look like, and which of them are missing.

The pods' rights are limited by name to the job's own ConfigMap and Leases, which is why the operator makes these
ahead: a right to create could not be limited so. Listing and watching Leases can't be limited by name either, and
whoever seals a round has to see them all: the pods may read their namespace's Leases, but write only their own job's.
"""

from collections.abc import Iterator
from typing import Any

from elasticjob_operator.api import job as jobs
from elasticjob_operator.api import names
from elasticjob_operator.api.rendezvous import Backend, Rendezvous
from elasticjob_operator.api.spec import Spec
from elasticjob_operator.core import leaving, places, shielding
from elasticjob_operator.core.actions import Action, Create, DropLease, Replace
from elasticjob_operator.core.observed import Access, Observed
from elasticjob_operator.core.situation import Situation
from elasticjob_rendezvous.round import record as records

RBAC = "rbac.authorization.k8s.io"


def needed(observed: Observed, most: int, record: records.Record) -> int:
    """For how many slots there must be Leases: up to *most* nodes, and whoever has a slot beyond, from before."""
    held = (slot for slot, lease in observed.leases.items() if not lease.free)
    used = {*record.plan, *record.member_slots, *held, *(pod.slot for pod in observed.pods)}
    return max((most, *(slot + 1 for slot in used)))


def surplus(observed: Observed, slots: int) -> Iterator[Action]:
    """Leases beyond the slots that are needed."""
    for slot, lease in sorted(observed.leases.items()):
        if slot >= slots:
            yield DropLease(lease)


def missing(observed: Observed, wish: Spec, slots: int) -> Iterator[Action]:
    """What has to be made so that pods of *slots* slots can work."""
    job, access = observed.job, observed.access
    if access is not None:
        yield from _access(job, wish, access, slots)
    if access is not None and observed.installation.network_policies and not access.network_policy:
        yield Create("NetworkPolicy", shielding.network_policy(job))
    for slot in range(slots) if wish.rendezvous.told else ():
        if slot not in observed.leases:
            yield Create("Lease", slot_lease(job, slot))


def _access(job: jobs.Job, wish: Spec, access: Access, slots: int) -> Iterator[Action]:
    place = places.place(job, wish.rendezvous)
    if place is not None and not access.place:
        yield Create(place["kind"], place)
    if not access.account:
        yield Create("ServiceAccount", {**_head(job, "v1", "ServiceAccount"), "automountServiceAccountToken": False})
    if not wish.rendezvous.uses_api:
        return
    manifest = role(job, wish.rendezvous, slots)
    if not access.role:
        yield Create("Role", manifest)
    elif access.slots != role_slots(manifest):
        manifest["metadata"]["resourceVersion"] = access.role_version
        yield Replace("Role", manifest)
    if not access.binding:
        yield Create("RoleBinding", _binding(job, wish))


def budget(situation: Situation) -> Iterator[Action]:
    """The PodDisruptionBudget, open to evictions or not. A job that is over holds nobody back."""
    found, job = situation.observed.budget, situation.observed.job
    if found is None:
        return
    least = 0 if leaving.cleared(situation) and any(leaving.restless(situation)) else shielding.HELD
    manifest = shielding.disruption_budget(job, least=least, version=found.version)
    if not found.version:
        yield Create("PodDisruptionBudget", manifest)
    elif found.least != least:
        yield Replace("PodDisruptionBudget", manifest)


def role(job: jobs.Job, wish: Rendezvous, slots: int) -> dict[str, Any]:
    """What the job's pods may do: read and write its round and its Leases, and see the namespace's Leases.

    With ``kubernetes-dynamic`` only to read and write the state of torch's handler.
    """
    if wish.backend is Backend.KUBERNETES_DYNAMIC:
        state = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [names.dynamic(job.name)]}
        return {**_head(job, f"{RBAC}/v1", "Role"), "rules": [{**state, "verbs": ["get", "update"]}]}
    leases = [names.slot_lease(job.name, slot) for slot in range(slots)]
    own = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [names.config_map(job.name)]}
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return {
        **_head(job, f"{RBAC}/v1", "Role"),
        "rules": [
            {**own, "verbs": ["get", "list", "watch", "update"]},
            {**lease, "resourceNames": leases, "verbs": ["get", "update"]},
            {**lease, "verbs": ["list", "watch"]},
        ],
    }


def role_slots(manifest: dict[str, Any]) -> int:
    """For how many slots a Role, as it was read, gives the rights."""
    return max((len(rule.get("resourceNames") or ()) for rule in manifest.get("rules") or ()), default=0)


def _binding(job: jobs.Job, wish: Spec) -> dict[str, Any]:
    """The rights go to the account that the pods have: the job's own, or a foreign one that can't change."""
    name = names.worker(job.name)
    account = wish.template["spec"].get("serviceAccountName") or name
    return {
        **_head(job, f"{RBAC}/v1", "RoleBinding"),
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": job.namespace}],
    }


def slot_lease(job: jobs.Job, slot: int) -> dict[str, Any]:
    """The free Lease of a slot."""
    head = jobs.head(job, "coordination.k8s.io/v1", "Lease", names.slot_lease(job.name, slot))
    head["metadata"]["labels"] = names.labels(job.name, slot)
    return {**head, "spec": {}}


def config_map(job: jobs.Job, record: records.Record) -> dict[str, Any]:
    """The ConfigMap that holds the round."""
    head = jobs.head(job, "v1", "ConfigMap", names.config_map(job.name))
    return {**head, "data": {records.KEY: records.dump(record)}}


def _head(job: jobs.Job, version: str, kind: str) -> dict[str, Any]:
    return jobs.head(job, version, kind, names.worker(job.name))
