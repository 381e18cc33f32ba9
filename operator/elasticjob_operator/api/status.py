"""What the operator knows of a job that no other object holds, as a frozen value: ``status`` of an ElasticJob.

Written by the operator alone, in one write at the end of a reconcile. What can't be read in it counts as absent: each
field can be found out again, or at worst a counter starts anew.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from elasticjob_operator.api import allocation as allocations
from elasticjob_operator.api import conditions, times
from elasticjob_operator.api.conditions import Condition
from elasticjob_operator.api.failures import FailureClass
from elasticjob_rendezvous.round.lease import Progress


@dataclasses.dataclass(frozen=True)
class Resize:
    """One change of the job's number of nodes, on whose word (``core.sizing``); over when the wanted ones train."""

    start: int
    before: int
    after: int
    reason: str = "Nodes"
    end: int | None = None


@dataclasses.dataclass(frozen=True)
class Failure:
    """The last failure that counted, for whoever asks why.

    ``details`` are the traceback of the worker that failed first, or the last lines of the pod's log.
    """

    slot: int
    exit_code: int
    message: str
    time: int
    pod: str = ""
    cluster_node: str = ""
    reason: str = ""
    what: FailureClass = FailureClass.USER_ERROR
    round: int = 0
    details: str = ""


@dataclasses.dataclass(frozen=True)
class Slow:
    """A node that is slower than its peers, and since when."""

    slot: int
    since: int


@dataclasses.dataclass(frozen=True)
class BadNode:
    """A cluster node on which pods failed for no fault of their own: how often, and when last."""

    name: str
    failures: int = 0
    time: int = 0


@dataclasses.dataclass(frozen=True)
class Spent:
    """The counters that have budgets; and in ``status.refilled``, what of them training has given back."""

    failures: int = 0
    infrastructure: int = 0
    disruptions: int = 0
    pods: int = 0
    step: int = 0

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """All but the step."""
        return self.failures, self.infrastructure, self.disruptions, self.pods


@dataclasses.dataclass(frozen=True)
class Status:
    """``status`` of an ElasticJob. ``planned`` is the size of the round's plan, which follows ``wanted`` step by step.

    ``result`` is how the job ended, known from when its round is closed; its conditions say so when its pods have too.
    ``end_reason`` and ``end_message`` are why, known before the round is closed.
    """

    observed_generation: int = 0
    state: str = ""
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    nodes: int = 0
    wanted: int = 0
    planned: int = 0
    selector: str = ""
    round: int = 0
    round_reason: str = ""
    round_phase: str = ""
    round_time: int | None = None
    failures: int = 0
    infrastructure: int = 0
    failed_rounds: int = 0
    failed_pods: int = 0
    disruptions: int = 0
    restarts: int = 0
    refilled: Spent = Spent()
    bad_nodes: tuple[BadNode, ...] = ()
    slow: tuple[Slow, ...] = ()
    resizes: int = 0
    last_resize: Resize | None = None
    last_failure: Failure | None = None
    progress: Progress | None = None
    progress_time: int | None = None
    last_progress_time: int | None = None
    allocation: allocations.Allocation | None = None
    start_time: int | None = None
    completion_time: int | None = None
    waiting_since: int | None = None
    notice_time: int | None = None
    counted: tuple[str, ...] = ()
    result: str = ""
    end_reason: str = ""
    end_message: str = ""

    def holds(self, kind: str) -> bool:
        """Whether the condition of this type is there and True."""
        found = conditions.find(self.conditions, kind)
        return found is not None and found.holds

    @property
    def spent(self) -> Spent:
        """The counters that have budgets."""
        return Spent(self.failures, self.infrastructure, self.disruptions, self.failed_pods)

    @property
    def finished(self) -> bool:
        """Whether the job has ended, for good."""
        return self.holds(conditions.SUCCEEDED) or self.holds(conditions.FAILED)

    @property
    def resizing(self) -> Resize | None:
        """The resize that is under way."""
        return self.last_resize if self.last_resize and self.last_resize.end is None else None


_NUMBERS = {
    "observed_generation": "observedGeneration",
    "nodes": "nodes",
    "wanted": "wantedNodes",
    "planned": "plannedNodes",
    "round": "round",
    "failures": "failures",
    "infrastructure": "infrastructureFailures",
    "failed_rounds": "failedRounds",
    "failed_pods": "failedPods",
    "disruptions": "disruptions",
    "restarts": "restarts",
    "resizes": "resizes",
}
_LONG = ("observedGeneration", "round", "step")
"""Numbers of 64 bits in the CRD; all others there have 32."""

INT32 = 2**31 - 1

_TEXTS = {
    "state": "state",
    "reason": "reason",
    "selector": "selector",
    "round_reason": "roundReason",
    "round_phase": "roundPhase",
    "result": "result",
    "end_reason": "endReason",
    "end_message": "endMessage",
}
_TIMES = {
    "round_time": "roundTime",
    "start_time": "startTime",
    "completion_time": "completionTime",
    "waiting_since": "waitingSince",
    "notice_time": "noticeTime",
    "progress_time": "progressTime",
    "last_progress_time": "lastProgressTime",
}


_PARTS = (
    "conditions", "countedPods", "lastResize", "slowNodes", "badClusterNodes", "refilled", "lastFailure", "progress",
    "allocation",
)  # fmt: skip

_KEYS = frozenset({*_NUMBERS.values(), *_TEXTS.values(), *_TIMES.values(), *_PARTS})


def unknown(data: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a newer version of the operator has written besides: whoever writes the status leaves it as it is."""
    return {key: value for key, value in (data or {}).items() if key not in _KEYS}


def dump(status: Status) -> dict[str, Any]:
    """The API's form. Numbers are always there, what is absent is not."""
    data: dict[str, Any] = {key: _bounded(key, getattr(status, field)) for field, key in _NUMBERS.items()}
    data |= {key: getattr(status, field) for field, key in _TEXTS.items() if getattr(status, field)}
    moments = {key: getattr(status, field) for field, key in _TIMES.items()}
    data |= {key: times.dump(moment) for key, moment in moments.items() if moment is not None}
    data["conditions"] = [conditions.dump(c) for c in status.conditions]
    data["countedPods"] = list(status.counted)
    data["lastResize"] = status.last_resize and _resize(status.last_resize)
    data["slowNodes"] = [{"node": slow.slot, "since": times.dump(slow.since)} for slow in status.slow]
    data["badClusterNodes"] = [
        {"name": bad.name, "failures": bad.failures, "time": times.dump(bad.time)} for bad in status.bad_nodes
    ]
    data["refilled"] = _spent(status.refilled) if status.refilled != Spent() else None
    data["lastFailure"] = status.last_failure and _failure(status.last_failure)
    data["progress"] = status.progress and _progress(status.progress)
    data["allocation"] = status.allocation and allocations.dump(status.allocation)
    return {key: value for key, value in data.items() if value not in (None, [])}


def _bounded(key: str, number: int) -> int:
    """The number, or the nearest that the API takes: a status that is refused says nothing at all."""
    return number if key in _LONG else max(-INT32 - 1, min(number, INT32))


def parse(data: Mapping[str, Any] | None) -> Status:
    """The value of ``status``; of a job that has none yet, the empty one."""
    data = data or {}
    fields: dict[str, Any] = {field: _read(data, key, int, 0) for field, key in _NUMBERS.items()}
    if "failedRounds" not in data:  # as it was written before failures had classes
        fields["failed_rounds"] = max(0, fields["failures"] - fields["failed_pods"])
    fields |= {field: _read(data, key, str, "") for field, key in _TEXTS.items()}
    fields |= {field: times.parse(data.get(key)) for field, key in _TIMES.items()}
    return Status(
        **fields,
        conditions=tuple(conditions.parse(c) for c in data.get("conditions") or ()),
        counted=tuple(str(uid) for uid in data.get("countedPods") or ()),
        last_resize=_part(data, "lastResize", _parse_resize),
        last_failure=_part(data, "lastFailure", _parse_failure),
        slow=_part(data, "slowNodes", _parse_slow) or (),
        bad_nodes=_part(data, "badClusterNodes", _parse_bad_nodes) or (),
        refilled=_part(data, "refilled", _parse_spent) or Spent(),
        progress=_part(data, "progress", _parse_progress),
        allocation=_part(data, "allocation", allocations.parse),
    )


def not_after(status: Status, now: int) -> Status:
    """*status* with no moment ahead of *now*: the clock was set back, or another one wrote them.

    What is awaited since such a moment is awaited from now on, and no longer than that.
    """
    moments = {field: min(now, at) for field in _TIMES if (at := getattr(status, field)) is not None}
    resize, failure = status.last_resize, status.last_failure
    if resize:
        end = None if resize.end is None else min(now, resize.end)
        moments["last_resize"] = dataclasses.replace(resize, start=min(now, resize.start), end=end)
    if failure:
        moments["last_failure"] = dataclasses.replace(failure, time=min(now, failure.time))
    return dataclasses.replace(status, **moments)


def _read(data: Mapping[str, Any], key: str, kind: type, absent: object) -> object:
    value = data.get(key)
    return value if isinstance(value, kind) else absent


def _part(data: Mapping[str, Any], key: str, of: Callable[[Mapping[str, Any]], Any]) -> Any:
    try:
        return of(data[key]) if data.get(key) else None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _resize(resize: Resize) -> dict[str, Any]:
    end = {} if resize.end is None else {"completionTime": times.dump(resize.end)}
    return {
        "from": resize.before,
        "to": resize.after,
        "reason": resize.reason,
        "time": times.dump(resize.start),
        **end,
    }


def _parse_resize(data: Mapping[str, Any]) -> Resize:
    return Resize(
        start=times.parse(data["time"]) or 0,
        before=int(data["from"]),
        after=int(data["to"]),
        reason=str(data["reason"]),
        end=times.parse(data.get("completionTime")),
    )


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "node": failure.slot,
        "pod": failure.pod,
        "exitCode": _bounded("exitCode", failure.exit_code),
        "message": failure.message,
        "time": times.dump(failure.time),
        "class": failure.what.value,
        "round": failure.round,
        **{
            key: text
            for key, text in (
                ("reason", failure.reason),
                ("clusterNode", failure.cluster_node),
                ("details", failure.details),
            )
            if text
        },
    }


def _parse_failure(data: Mapping[str, Any]) -> Failure:
    return Failure(
        slot=int(data["node"]),
        pod=str(data.get("pod", "")),
        exit_code=int(data["exitCode"]),
        message=str(data["message"]),
        time=times.parse(data["time"]) or 0,
        cluster_node=str(data.get("clusterNode", "")),
        reason=str(data.get("reason", "")),
        what=next((one for one in FailureClass if one.value == data.get("class")), FailureClass.USER_ERROR),
        round=int(data.get("round", 0)),
        details=str(data.get("details", "")),
    )


def _parse_slow(data: Any) -> tuple[Slow, ...]:
    return tuple(Slow(int(one["node"]), times.parse(one["since"]) or 0) for one in data)


def _parse_bad_nodes(data: Any) -> tuple[BadNode, ...]:
    return tuple(BadNode(str(one["name"]), int(one["failures"]), times.parse(one["time"]) or 0) for one in data)


_SPENT = {
    "failures": "failures",
    "infrastructure": "infrastructureFailures",
    "disruptions": "disruptions",
    "pods": "failedPods",
    "step": "step",
}


def _spent(spent: Spent) -> dict[str, Any]:
    return {key: _bounded(key, getattr(spent, field)) for field, key in _SPENT.items()}


def _parse_spent(data: Mapping[str, Any]) -> Spent:
    return Spent(**{field: int(data.get(key, 0)) for field, key in _SPENT.items()})


def _progress(progress: Progress) -> dict[str, Any]:
    loss = {} if progress.loss is None else {"loss": progress.loss}
    return {"round": progress.round, "step": progress.step, "samples": progress.samples, **loss}


def _parse_progress(data: Mapping[str, Any]) -> Progress:
    loss = data.get("loss")
    return Progress(
        round=int(data["round"]),
        step=int(data["step"]),
        samples=int(data["samples"]),
        loss=None if loss is None else float(loss),
    )
