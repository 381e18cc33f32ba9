"""Reading a job and all its objects: live, by UID, and in an order on which decisions rely.

The round comes before the Leases and the Leases before the pods (see ``core.observed``). Nothing is cached but that
the objects which give the pods their rights are there; they are looked at again every few minutes.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from elasticjob_operator.api import job as jobs
from elasticjob_operator.api import names, times
from elasticjob_operator.api.allocation import Allocation
from elasticjob_operator.api.installation import STRICTEST, Installation
from elasticjob_operator.api.rendezvous import Rendezvous
from elasticjob_operator.core import children, observed, places, pods
from elasticjob_operator.core.cluster_nodes import ClusterNode
from elasticjob_operator.kube.client import Client
from elasticjob_operator.kube.queue import Key
from elasticjob_rendezvous.round import lease, record

ACCESS_SECONDS = 300
"""How long the pods' rights are taken to be there once they have been seen."""


PLACES = ("Service", "ConfigMap")
"""Kinds of the object where agents of torch's own backends meet."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """What was read: as a value, and the job's object itself, for the write of its status."""

    observed: observed.Observed
    job: dict[str, Any]


class Reader:
    """Reads jobs. Remembers, for each job by UID and generation, until when its access objects need not be read."""

    def __init__(
        self,
        client: Client,
        installation: Installation = STRICTEST,
        nodes: Mapping[str, ClusterNode] | None = None,
        allocate: Callable[[jobs.Job], Allocation] | None = None,
    ) -> None:
        """*allocate* says what the autoscaler gives a job; None: there is no autoscaler."""
        self._client = client
        self._nodes = nodes if nodes is not None else {}
        self._open_budgets: set[Key] = set()
        self._installation = installation
        self._allocate = allocate
        self._access_until: dict[tuple[str, int], float] = {}

    async def read(self, key: Key) -> Reading | None:
        """The job and its objects; ``None`` if there is no such job."""
        found, round_ = await asyncio.gather(
            self._client.get("ElasticJob", *key),
            self._client.get("ConfigMap", key.namespace, names.config_map(key.name)),
        )
        if found is None:
            self._open_budgets.discard(key)
            return None
        job = jobs.parse(found)
        selector = names.selector(job.name)
        listed = await self._client.list("Lease", job.namespace, selector)
        leases = [(value, item) for item in listed if jobs.owns(job, item) and (value := _lease(job, item))]
        found_pods = await self._client.list("Pod", job.namespace, selector)
        own = [item for item in found_pods if jobs.owns(job, item)]
        parsed = [pods.parse(job.name, item) for item in own]
        nodes = {pod.node: self._nodes[pod.node] for pod in parsed if pod and pod.node in self._nodes}
        access = await self._access(job)
        look = access is not None or any(node.restless for node in nodes.values())
        others = [names.pod_place(job.name, i["metadata"]["name"]) for i in found_pods if not jobs.owns(job, i)]
        seen = observed.Observed(
            job=job,
            round=_round(job, round_),
            leases={value.slot: value for value, _ in leases},
            pods=tuple(sorted((p for p in parsed if p), key=lambda p: (p.slot, p.number))),
            access=access,
            cluster_nodes=nodes,
            budget=await self._budget(job) if look or key in self._open_budgets else None,
            taken=frozenset(place for place in others if place),
            installation=self._installation,
            etcd=next(filter(None, (pods.etcd(job.name, item) for item in own)), None),
            renewed=_renewed(leases),
            allocation=self._allocate(job) if self._allocate else None,
        )
        return Reading(seen, found)

    def forget(self, job: jobs.Job) -> None:
        """Read this job's access objects again the next time."""
        self._access_until.pop((job.uid, job.generation), None)

    def _kinds(self, job: jobs.Job, wish: Rendezvous) -> dict[str, str]:
        """Kinds and names of the objects that the job's pods need: one of a kind."""
        name, place = names.worker(job.name), places.place(job, wish)
        kinds = ["ServiceAccount", *(("Role", "RoleBinding") if wish.uses_api else ())]
        kinds += ["NetworkPolicy"] if self._installation.network_policies else []
        return {**dict.fromkeys(kinds, name), **({place["kind"]: place["metadata"]["name"]} if place else {})}

    async def _access(self, job: jobs.Job) -> observed.Access | None:
        now, known = asyncio.get_running_loop().time(), (job.uid, job.generation)
        if self._access_until.get(known, now) > now:
            return None
        if isinstance(job.spec, str):
            return None
        kinds = self._kinds(job, job.spec.rendezvous)
        found = await asyncio.gather(*(self._client.get(kind, job.namespace, name) for kind, name in kinds.items()))
        own = {kind: item for kind, item in zip(kinds, found, strict=True) if item and jobs.owns(job, item)}
        role = own.get("Role")
        access = observed.Access(
            account="ServiceAccount" in own,
            role=role is not None,
            role_version=role["metadata"]["resourceVersion"] if role else "",
            slots=children.role_slots(role) if role else 0,
            binding="RoleBinding" in own,
            network_policy="NetworkPolicy" in own,
            place=not own.keys().isdisjoint(PLACES),
        )
        if len(own) == len(kinds):
            valid = {key: until for key, until in self._access_until.items() if until > now}  # not those that are gone
            self._access_until = {**valid, known: now + ACCESS_SECONDS}
        return access

    async def _budget(self, job: jobs.Job) -> observed.Budget | None:
        if not self._installation.disruption_budgets:
            return None
        found = await self._client.get("PodDisruptionBudget", job.namespace, names.worker(job.name))
        if found is None or not jobs.owns(job, found):
            return observed.Budget()
        budget = observed.Budget(found["metadata"]["resourceVersion"], found["spec"].get("minAvailable", 0))
        (self._open_budgets.discard if budget.least else self._open_budgets.add)(Key(job.namespace, job.name))
        return budget


def _round(job: jobs.Job, item: dict[str, Any] | None) -> observed.Round:
    if item is None or not jobs.owns(job, item):
        return observed.Round()
    version = item["metadata"]["resourceVersion"]
    text = (item.get("data") or {}).get(record.KEY)
    try:
        found = record.parse(text if text is not None else "")
    except record.RecordError as error:
        return observed.Round(version=version, error=str(error)[:200], newer=isinstance(error, record.NewerError))
    if found.job != job.uid:
        return observed.Round(version=version, error="it is another job's")
    return observed.Round(record=found, version=version)


def _renewed(leases: Iterable[tuple[lease.SlotLease, dict[str, Any]]]) -> dict[int, int]:
    """When each slot's Lease was last renewed, by its holder's clock."""
    times_of = {value.slot: times.parse((item.get("spec") or {}).get("renewTime")) for value, item in leases}
    return {slot: when for slot, when in times_of.items() if when is not None}


def _lease(job: jobs.Job, item: dict[str, Any]) -> lease.SlotLease | None:
    meta = item["metadata"]
    slot = (meta.get("labels") or {}).get(names.SLOT_LABEL, "")
    if not slot.isdecimal() or meta["name"] != names.slot_lease(job.name, int(slot)):
        return None
    return lease.parse(int(slot), (item.get("spec") or {}).get("holderIdentity"), meta.get("annotations"))
