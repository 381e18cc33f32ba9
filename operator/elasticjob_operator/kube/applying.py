"""Carrying out actions, in their order: what depends on nothing else at the same time, pods at the cluster's pace.

A write that lost its race ends the reconcile (``errors.ConflictError``); what the API server refuses for a reason that
only a person can change comes back as a problem to tell.
"""

import asyncio
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from elasticjob_operator.api import job as jobs
from elasticjob_operator.api import names
from elasticjob_operator.core import actions, children, quantities
from elasticjob_operator.kube import errors
from elasticjob_operator.kube.client import Client
from elasticjob_operator.kube.pacing import Pace
from elasticjob_rendezvous.round import lease

WRITER = "operator"
"""Who wrote the round, in its record."""

NAME_TAKEN = "NameTaken"
"""An object of the name is there and is not the job's. Of a pod it concerns that one alone."""

WEBHOOK_FAILS = "failed calling webhook"
"""What the API server says, with code 500, of an admission webhook that it needs and does not reach."""

UNKNOWN_FIELDS = "strict decoding error: "
"""What the API server says before the fields of a pod that it does not know. The CRD lets them pass: it does not know
all that a pod may have in every version of Kubernetes.
"""

LOOK_SECONDS = 1.0
"""Between two looks at a job whose many pods are being made, so that one that is deleted gets no more of them."""

PARALLEL = 16
"""Writes for one job at the same time."""


class Applier:
    """Carries out decisions."""

    def __init__(self, client: Client, pace: Pace) -> None:
        self._client = client
        self._pace = pace

    async def apply(self, job: jobs.Job, todo: Sequence[actions.Action]) -> tuple[actions.Problem, ...]:
        """Carry out *todo*; the problems that came up. What comes after one is left out, unless it is one pod's alone.

        Raises:
            errors.ApiError: something that trying again will mend.
        """
        problems: list[actions.Problem] = []
        clock = asyncio.get_running_loop()
        looked = clock.time()
        for _, group in itertools.groupby(todo, key=_group):
            for batch in _batches(list(group)):
                if clock.time() - looked >= LOOK_SECONDS:
                    await self._check(job)
                    looked = clock.time()
                found = await asyncio.gather(*(self._one(job, action) for action in batch))
                problems += [problem for problem in found if problem]
                if any(map(_concerns_others, problems)):
                    return tuple(problems)
        return tuple(problems)

    async def _check(self, job: jobs.Job) -> None:
        """Stop what was decided for a job that is not so any more: it may have been deleted, or scaled down."""
        found = await self._client.get("ElasticJob", job.namespace, job.name)
        meta = found["metadata"] if found else {}
        same = (meta.get("uid"), meta.get("generation", 1)) == (job.uid, job.generation)
        if not same or meta.get("deletionTimestamp"):
            raise errors.ConflictError(0, "the job has changed since it was read")

    async def _one(self, job: jobs.Job, action: actions.Action) -> actions.Problem | None:
        match action:
            case actions.Create(kind=kind, manifest=manifest):
                return await self._create(job, kind, dict(manifest))
            case actions.Replace(kind=kind, manifest=manifest):
                await self._client.replace(kind, manifest)
            case actions.WriteRound():
                return await self._write_round(job, action)
            case actions.ReleaseLease():
                await self._release(job, action.lease)
            case actions.DropLease():
                await self._drop(job, action.lease)
            case actions.DeletePod(name=name, uid=uid, force=force):
                await self._client.delete("Pod", job.namespace, name, uid=uid, force=force)
            case actions.DeleteJob(uid=uid):
                await self._client.delete("ElasticJob", job.namespace, job.name, uid=uid)
        return None

    async def _create(self, job: jobs.Job, kind: actions.Kind, manifest: dict[str, Any]) -> actions.Problem | None:
        if kind == "Pod":
            await self._pace.turn()
        try:
            await self._client.create(kind, manifest)
        except errors.ConflictError:
            problem = await self._taken(job, kind, manifest)
            if problem is None and kind == "ConfigMap":
                raise  # it is ours, but may hold another round than the one that was decided
            return problem
        except (errors.RefusedError, errors.ForbiddenError, errors.UnavailableError) as error:
            reason = _refusal(error, kind)
            if not reason:
                raise
            return actions.Problem(reason, _told(error.message, manifest), kind)
        return None

    async def _taken(self, job: jobs.Job, kind: actions.Kind, manifest: Mapping[str, Any]) -> actions.Problem | None:
        """An object of this name is there: ours (a reply was lost, or a list was old), or somebody else's."""
        name = manifest["metadata"]["name"]
        found = await self._client.get(kind, job.namespace, name)
        if found is None:
            return None
        if not jobs.owns(job, found):
            message = f"{kind} {name} is not this job's; the job's own is made when that one is gone"
        elif _hidden(job, kind, manifest, found):
            message = f"{kind} {name} has lost labels by which it is found: delete it, or put them back"
        else:
            return None
        return actions.Problem(NAME_TAKEN, message, kind)

    async def _write_round(self, job: jobs.Job, action: actions.WriteRound) -> actions.Problem | None:
        manifest = children.config_map(job, dataclasses.replace(action.record, writer=WRITER))
        if not action.version:
            return await self._create(job, "ConfigMap", manifest)
        manifest["metadata"]["resourceVersion"] = action.version
        await self._client.replace("ConfigMap", manifest)
        return None

    async def _release(self, job: jobs.Job, held: lease.SlotLease) -> None:
        """Free the Lease if it still says what the decision was made on: its last word may be that it has finished."""
        found = await self._unchanged(job, held)
        if found is None:
            return
        found["spec"] = {**found["spec"], "holderIdentity": ""}
        kept = {k: v for k, v in (found["metadata"].get("annotations") or {}).items() if not k.startswith(lease.PREFIX)}
        found["metadata"]["annotations"] = {**kept, **lease.annotations(lease.freed(held))}
        await self._client.replace("Lease", found)

    async def _drop(self, job: jobs.Job, held: lease.SlotLease) -> None:
        found = await self._unchanged(job, held)
        if found is not None:
            meta = found["metadata"]
            await self._client.delete(
                "Lease", job.namespace, meta["name"], uid=meta["uid"], version=meta["resourceVersion"]
            )

    async def _unchanged(self, job: jobs.Job, held: lease.SlotLease) -> dict[str, Any] | None:
        """The Lease as it is, if it is there."""
        found = await self._client.get("Lease", job.namespace, names.slot_lease(job.name, held.slot))
        if found is None:
            return None
        owner = (found.get("spec") or {}).get("holderIdentity")
        if lease.parse(held.slot, owner, found["metadata"].get("annotations")) != held:
            raise errors.ConflictError(0, f"the Lease of slot {held.slot} has changed since it was read")
        return found


def _hidden(job: jobs.Job, kind: actions.Kind, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether the job's own object is in no list of its objects, because somebody has taken its labels away.

    A Lease is found by its slot's label too, by the operator as by the agents.
    """
    labels = found["metadata"].get("labels") or {}
    needed = wanted["metadata"]["labels"] if kind == "Lease" else names.labels(job.name)
    return kind in ("Pod", "Lease") and not needed.items() <= labels.items()


def _refusal(error: errors.ApiError, kind: actions.Kind) -> str:
    """One word for why the API server does not take an object, if that is more than that it can't just now."""
    if isinstance(error, errors.RefusedError):
        return "TemplateInvalid" if kind == "Pod" else f"{kind}Invalid"
    if isinstance(error, errors.ForbiddenError):
        return "QuotaExceeded" if "exceeded quota" in error.message else f"{kind}Forbidden"
    return "WebhookUnavailable" if WEBHOOK_FAILS in error.message else ""


def _told(message: str, manifest: Mapping[str, Any]) -> str:
    """The API server's words; of unknown fields those that help, of bad quantities the fields too."""
    if unknown := message.partition(UNKNOWN_FIELDS)[2]:
        return f"spec.template makes a pod with {unknown}: misspelt, or too new for this cluster"
    if "quantit" in message and (found := ", ".join(quantities.unreadable(manifest, "spec.template"))):
        return f"{found}, which is no quantity (one is 2, 500m or 4Gi): {message}"
    return message


def _concerns_others(problem: actions.Problem) -> bool:
    return problem.kind != "Pod" or problem.reason != NAME_TAKEN


def _group(action: actions.Action) -> tuple[type, str]:
    """What may be carried out at the same time: the same kind of action on the same kind of object."""
    return type(action), action.kind if isinstance(action, actions.Create | actions.Replace) else ""


def _batches(group: list[actions.Action]) -> Iterable[list[actions.Action]]:
    """One, then two, four, up to ``PARALLEL``: a template that is refused is refused once and not a thousand times."""
    size, rest = 1, group
    while rest:
        yield rest[:size]
        size, rest = min(size * 2, PARALLEL), rest[size:]
