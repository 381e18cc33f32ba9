"""Everything the operator ever does to the cluster, as frozen values: ``core`` makes them, ``kube`` carries them out.

They are carried out in the order of the tuple; neighbours of one class at the same time. A write that lost its
race ends the reconcile there: what follows was decided for a round, or a Lease, that is not so.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from elasticjob_operator.api.status import Status
from elasticjob_rendezvous.round.lease import SlotLease
from elasticjob_rendezvous.round.record import Record

Kind = Literal[
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "Lease",
    "ConfigMap",
    "Service",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "Pod",
]


@dataclasses.dataclass(frozen=True)
class Create:
    """Make an object. One that is there already and is ours is as good."""

    kind: Kind
    manifest: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Replace:
    """Write an object, whose manifest carries the ``resourceVersion`` it was read with."""

    kind: Kind
    manifest: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class WriteRound:
    """Write the round record if it still has *version*; without one, create its ConfigMap."""

    record: Record
    version: str


@dataclasses.dataclass(frozen=True)
class ReleaseLease:
    """Free a slot whose holder is dead, if its Lease still says what it said when it was read."""

    lease: SlotLease


@dataclasses.dataclass(frozen=True)
class DropLease:
    """Delete the Lease of a slot that the job can't have any more, if it still says what it said when it was read."""

    lease: SlotLease


@dataclasses.dataclass(frozen=True)
class DeletePod:
    """Delete this very pod, with its own grace period if it is not to be forced."""

    name: str
    uid: str
    why: str
    force: bool = False
    """At once, although nobody can say that it has ended."""


@dataclasses.dataclass(frozen=True)
class DeleteJob:
    """Delete this very job, and by its owner references all that is its."""

    uid: str


Action = Create | Replace | WriteRound | ReleaseLease | DropLease | DeletePod | DeleteJob


@dataclasses.dataclass(frozen=True)
class Event:
    """Something for a person to read in ``kubectl describe``."""

    reason: str
    message: str
    warning: bool = False


@dataclasses.dataclass(frozen=True)
class Problem:
    """An action that the API server refused, told in a condition: *reason* is one of ours, *message* the server's."""

    reason: str
    message: str
    kind: Kind = "Pod"


@dataclasses.dataclass(frozen=True)
class Decision:
    """What to do now, what to say of it, and when to look again if nothing happens."""

    status: Status
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    wake_after: float | None = None
