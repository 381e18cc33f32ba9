"""A pod of the job, reduced to what decisions need."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from elasticjob_operator.api import names, times

_WAITING_IS_TROUBLE = frozenset({
    "CreateContainerConfigError", "CreateContainerError", "ErrImagePull", "ImagePullBackOff", "InvalidImageName",
    "ErrImageNeverPull", "RunContainerError", "CrashLoopBackOff",
})  # fmt: skip
"""Reasons of a waiting container that do not pass by themselves. Only a native side car is ever restarted."""

_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,62}[A-Za-z0-9_])?")
"""What a condition's reason may be (the CRD's bound). A pod's own are any text, in whatever words its scheduler has."""

MAX_REASON = 128
"""Characters of a container's reason that a status has room for (the CRD's bound)."""

_ENDS = ("Succeeded", "Failed")
"""Phases of a pod in which nothing runs any more."""

_DISRUPTED = frozenset({"Evicted", "Preempting", "NodeShutdown", "NodeLost", "Terminated"})
"""``status.reason`` of a failed pod that was taken away. One that its cluster node has never let start (for want of the
device that it was given: UnexpectedAdmissionError) is none: the next may fare alike, so they are made ever more slowly.
"""


@dataclasses.dataclass(frozen=True)
class Pod:
    """One pod object of a slot. A *live* one may still become, or is, a process of the job."""

    name: str
    uid: str
    slot: int
    number: int
    phase: str = "Pending"
    deleting: bool = False
    ready: bool = False
    started: bool = False
    created: str = ""
    template: str = ""
    disrupted: bool = False
    exit_code: int | None = None
    reason: str = ""
    """The kubelet's word for how it ended, such as ``OOMKilled``."""
    node: str = ""
    """The cluster node that it is, or was, on."""
    trouble: str = ""
    message: str = ""
    run: int = 0
    """The run of the job's group that it was made for (``core.runs``)."""
    spent: bool = False
    """Whether that run is over: it is no node of the job any more, and however it ends counts for nothing."""
    trainer_ended: int | None = None
    """Since when the trainer has ended while another container keeps the pod; its phase here is the trainer's."""

    @property
    def terminal(self) -> bool:
        """Whether its trainer does not run any more, nor ever will."""
        return self.phase in _ENDS

    @property
    def stays(self) -> bool:
        """Whether it runs, or is about to, for as long as nobody deletes it."""
        return not (self.terminal or self.deleting)

    @property
    def live(self) -> bool:
        """Whether it is worth waiting for."""
        return self.stays and not self.spent


def parse(job: str, data: Mapping[str, Any]) -> Pod | None:
    """The value of a pod object; ``None`` where its name is not one that the operator gives to a node."""
    place = names.pod_place(job, data["metadata"]["name"])
    return _parsed(place, data) if place else None


def etcd(job: str, data: Mapping[str, Any]) -> Pod | None:
    """The value of the job's own etcd's pod; ``None`` for any other pod."""
    return _parsed((-1, 0), data) if data["metadata"]["name"] == names.etcd(job) else None


def _parsed(place: tuple[int, int], data: Mapping[str, Any]) -> Pod:
    meta, status = data["metadata"], data.get("status") or {}
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    trainer_name = _trainer_name((data.get("spec") or {}).get("containers") or [{}])
    ended, trainer_end = _ended(trainer_name, status)
    phase = status.get("phase") or "Pending"
    kept = bool(trainer_end) and phase not in _ENDS
    trouble, message = _trouble(status, conditions)
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        slot=place[0],
        number=place[1],
        phase=_ENDS[bool(trainer_end.get("exitCode"))] if kept else phase,
        deleting=bool(meta.get("deletionTimestamp")),
        ready=conditions.get("Ready", {}).get("status") == "True",
        started=not kept and _runs(trainer_name, status),
        created=meta.get("creationTimestamp") or "",
        template=(meta.get("annotations") or {}).get(names.TEMPLATE_ANNOTATION, ""),
        run=_number((meta.get("annotations") or {}).get(names.RUN_ANNOTATION, "")),
        disrupted="DisruptionTarget" in conditions or status.get("reason") in _DISRUPTED,
        exit_code=ended.get("exitCode"),
        reason=_why(ended),
        node=(data.get("spec") or {}).get("nodeName") or "",
        trouble=trouble,
        message=message or ended.get("message") or status.get("message") or _why(ended),
        trainer_ended=(times.parse(trainer_end.get("finishedAt")) or 0) if kept else None,
    )


def _trainer_name(containers: list[Mapping[str, Any]]) -> str | None:
    """The container that runs torchrun, by what only the operator gives it: a webhook may have put another first."""
    ours = (c for c in containers if any(e.get("name") == names.SLOT_ENV for e in c.get("env") or ()))
    found = next(ours, containers[trainer(containers)])
    return found.get("name")


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0


def trainer(containers: list[Mapping[str, Any]]) -> int:
    """The place of the container that runs torchrun."""
    return next((i for i, c in enumerate(containers) if c.get("name") == names.TRAINER), 0)


def statuses(status: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """What a pod's status says of its containers, the init containers first."""
    return (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))


def _ended(name: str | None, status: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """How the trainer has ended, if it has not how another container failed (an init container, say); and the first."""
    ends = {s.get("name"): (s.get("state") or {}).get("terminated") or {} for s in statuses(status)}
    failed = next((end for end in ends.values() if end.get("exitCode")), {})
    end = ends.get(name) or {}
    return end or failed, end


def _runs(name: str | None, status: Mapping[str, Any]) -> bool:
    """Whether the trainer runs: a side car that does has nothing to lose."""
    own = (c for c in status.get("containerStatuses") or () if c.get("name") == name)
    return any((c.get("state") or {}).get("running") is not None for c in own)


def _why(ended: Mapping[str, Any]) -> str:
    """The kubelet's word, where it says more than that there was an error: ``OOMKilled``."""
    reason = str(ended.get("reason") or "")
    return "" if reason in ("Error", "Completed") else reason[:MAX_REASON]


def _trouble(status: Mapping[str, Any], conditions: Mapping[str, Any]) -> tuple[str, str]:
    """What keeps the pod from starting: a reason and a message."""
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        reason = str(scheduled.get("reason") or "")
        return reason if _REASON.fullmatch(reason) else "Unschedulable", scheduled.get("message") or reason
    for container in statuses(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _WAITING_IS_TROUBLE:
            return waiting["reason"], waiting.get("message") or ""
    return "", ""
