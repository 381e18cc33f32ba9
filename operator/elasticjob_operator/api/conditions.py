"""Conditions as Kubernetes has them: a type, True or False, one word why, one sentence for people."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from elasticjob_operator.api import times

RUNNING = "Running"
PODS_READY = "PodsReady"
RESIZING = "Resizing"
SUSPENDED = "Suspended"
ALLOCATED = "Allocated"
SUCCEEDED = "Succeeded"
FAILED = "Failed"
STRAGGLING = "Straggling"

MAX_MESSAGE = 1024
"""Longest message, in characters (the CRD's bound)."""


@dataclasses.dataclass(frozen=True)
class Condition:
    """One condition. ``since`` is when ``holds`` last changed, which is what others wait on."""

    type: str
    holds: bool
    reason: str
    message: str = ""
    since: int = 0
    generation: int = 0


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of this type."""
    return next((c for c in conditions if c.type == kind), None)


def kept(old: Iterable[Condition], new: Condition) -> Condition:
    """*new*, with the time of *old*'s where it holds (or not) as before."""
    before = find(old, new.type)
    same = before is not None and before.holds == new.holds
    message = new.message if len(new.message) <= MAX_MESSAGE else new.message[: MAX_MESSAGE - 1] + "…"
    return dataclasses.replace(new, since=before.since if same and before else new.since, message=message)


def dump(condition: Condition) -> dict[str, Any]:
    """The API's form."""
    return {
        "type": condition.type,
        "status": "True" if condition.holds else "False",
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": times.dump(condition.since),
        "observedGeneration": condition.generation,
    }


def parse(data: Mapping[str, Any]) -> Condition:
    """The value of one entry of ``status.conditions``."""
    return Condition(
        type=str(data.get("type", "")),
        holds=data.get("status") == "True",
        reason=str(data.get("reason", "")),
        message=str(data.get("message", "")),
        since=times.parse(data.get("lastTransitionTime")) or 0,
        generation=int(data.get("observedGeneration") or 0),
    )
