"""A slot's Lease as a value: who holds the slot, for which round it has arrived, how far its workers are.

Turns a Lease's holder and annotations into a frozen value and back. A Lease is only a report, so what can't be read in
it counts as absent and is named in ``refused``; it is never guessed and never a crash.
"""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from elasticjob_rendezvous.round import record

PREFIX = "elasticjob.dev/"
JOB = PREFIX + "job"
ARRIVED = PREFIX + "arrived"
STORE = PREFIX + "store"
SEEN = PREFIX + "seen"
LEFT = PREFIX + "left"
FINISHED = PREFIX + "finished"
CHECKPOINTED = PREFIX + "checkpointed"
PROGRESS = PREFIX + "progress"
FAILURE = PREFIX + "failure"
PAUSE = PREFIX + "pause"
BUSY = PREFIX + "busy"

KEYS = frozenset({JOB, ARRIVED, STORE, SEEN, LEFT, FINISHED, CHECKPOINTED, PROGRESS, FAILURE, PAUSE, BUSY})
"""All that this version writes. What others begin with ``PREFIX`` are a newer version's."""

JOB_LABEL = PREFIX + "job-name"
SLOT_LABEL = PREFIX + "slot"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "elasticjob"

MAX_TEXT = 1024
"""Longest annotation that is read, in characters; a failure's may be longer."""

MAX_FAILURE = 4096
MAX_MESSAGE = 512
MAX_TRACEBACK = 1536
"""Characters of a failure's message and traceback that are written; of the traceback the last ones tell most."""

MAX_NUMBER = 2**53
"""Numbers beyond are refused: JSON readers disagree on them, and no job gets there."""

LATEST = 253_402_300_799
"""The end of the year 9999: no moment is later, because none could be written as a date."""

_POD = re.compile(r"[A-Za-z0-9.-]{1,253}")
_HOLDER = re.compile(rf"({_POD.pattern})/([0-9a-f]{{8}})")


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far the job's training is, as global rank 0 last reported it.

    ``restored``: seconds from the round's begin until that process had its state, where the script says so. Of how far
    training is it is no part.
    """

    round: int
    step: int
    samples: int
    loss: float | None
    restored: float | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True)
class Failure:
    """The slot's last worker failure. ``time`` is by the failed worker's clock, in seconds since 1970, 0 if unknown.

    ``out_of_memory``: the kernel has killed a process of the node's in that round.
    """

    round: int
    exit_code: int
    message: str
    time: float = 0.0
    traceback: str = ""
    out_of_memory: bool = False


@dataclasses.dataclass(frozen=True)
class Pause:
    """What the slot's process waits for after its workers' failure in a round: ``until`` is by its clock."""

    round: int
    until: int


@dataclasses.dataclass(frozen=True)
class SlotLease:
    """What a slot's Lease says. Unlike the Lease it has no times: those are judged by the reader's own clock."""

    slot: int
    pod: str = ""
    nonce: str = ""
    arrived: int = 0
    store: str = ""
    seen: int = 0
    finished: int = 0
    checkpointed: str = ""
    progress: Progress | None = None
    failure: Failure | None = None
    pause: Pause | None = None
    busy: float = 0.0
    """Seconds of a step that this node's first worker spends on its own work, lately; 0 if it does not say."""
    job: str = ""
    """The holder's job, as in the record."""
    left: str = ""
    """Of a free slot, the UID of the pod that left it although it was wanted: else nothing would tell of that loss."""
    refused: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    @property
    def free(self) -> bool:
        """Whether no process holds the slot."""
        return not self.nonce


def holder(lease: SlotLease) -> str:
    """The Lease's ``holderIdentity``."""
    return f"{lease.pod}/{lease.nonce}" if lease.nonce else ""


def freed(lease: SlotLease, *, left: str = "") -> SlotLease:
    """The same slot with nobody in it, *left* by a pod that was wanted or not: what was seen and failed stays."""
    return SlotLease(lease.slot, seen=lease.seen, failure=lease.failure, left=left)


def annotations(lease: SlotLease) -> dict[str, str]:
    """The annotations that say *lease*; what is absent has none."""
    texts = {
        JOB: lease.job,
        ARRIVED: str(lease.arrived or ""),
        STORE: lease.store,
        SEEN: str(lease.seen or ""),
        LEFT: lease.left,
        FINISHED: str(lease.finished or ""),
        CHECKPOINTED: lease.checkpointed,
        PROGRESS: _progress_text(lease.progress),
        FAILURE: _failure_text(lease.failure),
        PAUSE: json.dumps(dataclasses.asdict(lease.pause), separators=(",", ":")) if lease.pause else "",
        BUSY: f"{lease.busy:.4g}" if lease.busy else "",
    }
    return {key: text for key, text in texts.items() if text}


def parse(slot: int, holder_identity: str | None, found: Mapping[str, str] | None) -> SlotLease:
    """The value of a Lease with this holder and annotations. A holder not of our form is nobody: it reads as free."""
    refused: list[str] = []

    def read(key: str, of: Callable[[str], Any], absent: Any, most: int = MAX_TEXT) -> Any:
        text = (found or {}).get(key)
        if text is None:
            return absent
        try:
            return of(_bounded(text, most))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            refused.append(f"{key}: {error}"[:MAX_TEXT])
            return absent

    owner = _HOLDER.fullmatch(holder_identity or "")
    if holder_identity and owner is None:
        refused.append(f"holderIdentity: {holder_identity[:MAX_TEXT]!r}")
    left = read(LEFT, _pod, "")
    return SlotLease(
        slot=slot,
        pod=owner[1] if owner else "",
        nonce=owner[2] if owner else "",
        job=read(JOB, str, ""),
        arrived=read(ARRIVED, _number, 0),
        store=read(STORE, _store, ""),
        seen=read(SEEN, _number, 0),
        left="" if owner else left,
        finished=read(FINISHED, _number, 0),
        checkpointed=read(CHECKPOINTED, str, ""),
        progress=read(PROGRESS, _progress, None),
        failure=read(FAILURE, _failure, None, MAX_FAILURE),
        pause=read(PAUSE, _pause, None),
        busy=read(BUSY, _seconds, 0.0),
        refused=tuple(refused),
    )


def _bounded(text: str, most: int) -> str:
    if len(text) > most:
        raise ValueError(f"{len(text)} characters, more than {most}")
    return text


def _pod(text: str) -> str:
    if not _POD.fullmatch(text):
        raise ValueError(f"not a pod's UID: {text!r}")
    return text


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise ValueError(f"not a number from 0: {text!r}")
    return _round(int(text))


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < MAX_NUMBER:
        raise ValueError(f"not a number of seconds: {text!r}")
    return seconds


def _store(text: str) -> str:
    if not record.STORE_ADDRESS.fullmatch(text):
        raise ValueError(f"not address:port: {text!r}")
    return text


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_NUMBER:
        raise ValueError(f"not a number from 0: {value!r}")
    return value


def _pause(text: str) -> Pause:
    data = json.loads(text)
    return Pause(round=_round(data["round"]), until=min(_count(data["until"]), LATEST))


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _round(value: Any) -> int:
    """A round's number. The one after it is one that a record can have."""
    if _count(value) >= record.MAX_NUMBER:
        raise ValueError(f"not a round's number: {value!r}")
    return int(value)


def _progress_text(progress: Progress | None) -> str:
    if progress is None:
        return ""
    loss = progress.loss if progress.loss is not None and math.isfinite(progress.loss) else None  # JSON has no NaN
    data = {"round": progress.round, "step": progress.step, "samples": progress.samples, "loss": loss}
    more = {} if progress.restored is None else {"restored": round(progress.restored, 3)}
    return json.dumps({**data, **more}, separators=(",", ":"))


def _progress(text: str) -> Progress:
    data = json.loads(text)
    loss = data.get("loss")
    if loss is not None and not _finite(loss):
        raise ValueError(f"not a loss: {loss!r}")
    return Progress(
        round=_round(data["round"]),
        step=_count(data["step"]),
        samples=_count(data["samples"]),
        loss=None if loss is None else float(loss),
        restored=_length(data.get("restored")),
    )


def _length(value: Any) -> float | None:
    """A length of time that is only told: one that makes no sense is none."""
    return float(value) if value is not None and _finite(value) and value >= 0 else None


def _failure_text(failure: Failure | None) -> str:
    if failure is None:
        return ""
    data: dict[str, Any] = {
        "round": failure.round,
        "exitCode": failure.exit_code,
        "message": failure.message[:MAX_MESSAGE],
        **({"outOfMemory": True} if failure.out_of_memory else {}),
    }
    more = {"time": failure.time, "traceback": failure.traceback[-MAX_TRACEBACK:]}
    full = {**data, **{key: value for key, value in more.items() if value}}
    for candidate in (full, data, {**data, "message": ""}):  # escapes make a text longer
        text = json.dumps(candidate, separators=(",", ":"), ensure_ascii=False)
        if len(text) <= MAX_FAILURE:
            break
    return text


def _failure(text: str) -> Failure:
    data = json.loads(text)
    code, message = data["exitCode"], data["message"]
    moment, traceback = data.get("time", 0.0), data.get("traceback", "")
    if (
        not isinstance(code, int)
        or isinstance(code, bool)
        or abs(code) > record.MAX_NUMBER
        or not isinstance(message, str)
        or not isinstance(traceback, str)
        or not _finite(moment)
    ):
        raise ValueError(f"not a failure: {text!r}")
    number = _round(data["round"])
    return Failure(
        round=number,
        exit_code=code,
        message=message,
        time=float(moment),
        traceback=traceback,
        out_of_memory=data.get("outOfMemory") is True,
    )
