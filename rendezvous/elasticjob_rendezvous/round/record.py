"""The round record: the one small JSON text on which all parties of a job agree.

A record is read from, and written to, the key ``round`` of the job's ConfigMap. This module turns text into a frozen
value and back; it never guesses: what can't be read is an error, and never "there is no rendezvous yet".

Parties of several versions share a record while an operator or an image is replaced. A version of the project that adds
a field or a reason leaves ``VERSION`` as it is: others keep the field as it stands (:attr:`Record.more`), in later
rounds too, and show the reason. One that adds a phase, a result or another meaning of a field counts it up.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import re
from typing import Any

from elasticjob_rendezvous.round import slots

VERSION = 1
KEY = "round"
"""The ConfigMap's data key."""

MAX_BYTES = 64 * 1024
"""Longest text that is read: 1024 members of 16 bytes, four times over. More is refused unread."""

MAX_NUMBER = 2**31 - 1
"""Largest number that is read: they go on into an ElasticJob's status, whose numbers have 32 bits."""

MAX_END = 512
"""Characters of ``end`` that are kept."""

MAX_MORE = 4096
"""Characters of what a newer version has written besides: more is let go."""

_NONCE = re.compile(r"[0-9a-f]{8}")
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")
STORE_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):\d{1,5}")


class RecordError(ValueError):
    """A record that can't be read, with the reason. Nobody acts on it; the operator replaces it with a higher round."""


class NewerError(RecordError):
    """A record of a version to come. Others understand it: nobody who does not may replace it."""


class Phase(str, enum.Enum):
    """Where the round stands."""

    OPEN = "Open"
    SEALED = "Sealed"
    FINISHING = "Finishing"
    CLOSED = "Closed"


class Reason(str, enum.Enum):
    """Why a round was opened. One that a newer version has is its own text."""

    STARTED = "Started"
    POD_LOST = "PodLost"
    NODE_JOINED = "NodeJoined"
    RESIZED = "Resized"
    WORKERS_FAILED = "WorkersFailed"
    PEER_SILENT = "PeerSilent"
    AGENT_RESTARTED = "AgentRestarted"
    AGENT_LEFT = "AgentLeft"
    STATE_LOST = "StateLost"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"

    @classmethod
    def _missing_(cls, value: object) -> Reason | None:
        if not isinstance(value, str) or not _REASON.fullmatch(value):
            return None
        new = str.__new__(cls, value)
        new._name_ = new._value_ = value
        return new


class Result(str, enum.Enum):
    """How a closed job ended."""

    NONE = ""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclasses.dataclass(frozen=True)
class Member:
    """One process of a sealed round. Its rank is its place in the record's ``members``."""

    slot: int
    nonce: str

    def __str__(self) -> str:
        return f"{self.slot}:{self.nonce}"

    @classmethod
    def parse(cls, text: str) -> Member:
        slot, _, nonce = text.partition(":")
        if not _NONCE.fullmatch(nonce) or not slot.isdecimal() or int(slot) >= slots.MAX_SLOTS:
            raise RecordError(f"not a member (slot:nonce): {text!r}")
        return cls(int(slot), nonce)


@dataclasses.dataclass(frozen=True)
class Notice:
    """A checkpoint is wanted before the next round; whoever waits for it waits ``grace_seconds`` at the most."""

    id: str
    grace_seconds: int


@dataclasses.dataclass(frozen=True)
class Record:
    """The state of a job's rendezvous. Field by field: ``docs/architecture.md``.

    Invariants, checked at construction: members are distinct by slot and by process; a sealed phase has members and a
    store and its number is ``sealed``; ``sealed`` never exceeds ``number``; a result goes with ``Closed`` only, as does
    what is said of it.
    """

    job: str
    number: int
    phase: Phase
    reason: Reason
    plan: frozenset[int] = frozenset()
    absent: frozenset[int] = frozenset()
    suspects: frozenset[str] = frozenset()
    sealed: int = 0
    members: tuple[Member, ...] = ()
    store: str = ""
    failures: int = 0
    notice: Notice | None = None
    min_nodes: int = 0
    sizes: frozenset[int] = frozenset()
    result: Result = Result.NONE
    end: str = ""
    """Why it was closed, in a line for people; where nobody says, nothing."""
    writer: str = ""
    more: str = ""
    """Fields that a newer version has written, as JSON."""

    def __post_init__(self) -> None:
        for broken, rule in (
            (self.number < 1, "round numbers start at 1"),
            (not 0 <= self.sealed <= self.number, "the sealed round is never ahead of the current one"),
            (len({m.slot for m in self.members}) != len(self.members), "one member a slot"),
            (len({m.nonce for m in self.members}) != len(self.members), "one rank a process"),
            (self.running and not (self.members and self.store), "a sealed round has members and a store"),
            (self.running and self.sealed != self.number, "a sealed round is the last sealed one"),
            (self.phase is Phase.OPEN and self.sealed == self.number, "an open round is not sealed yet"),
            ((self.result is Result.NONE) == (self.phase is Phase.CLOSED), "a result goes with Closed only"),
            (bool(self.end) and self.phase is not Phase.CLOSED, "why it was closed goes with Closed only"),
            (not self.absent <= self.plan, "absent slots are slots of the plan"),
        ):
            if broken:
                raise RecordError(f"{rule}: {self!r}")

    @property
    def member_slots(self) -> frozenset[int]:
        """Slots of the last sealed round."""
        return frozenset(m.slot for m in self.members)

    def fitting(self, count: int) -> int:
        """How many of *count* processes may be members: the most that the job's allowed sizes leave."""
        return max((size for size in self.sizes if size <= count), default=0) if self.sizes else count

    @property
    def running(self) -> bool:
        """Whether the members of this very round train (or have finished)."""
        return self.phase in (Phase.SEALED, Phase.FINISHING)


_KEYS = frozenset({
    "version", "job", "number", "phase", "reason", "plan", "absent", "suspects", "sealed", "members", "store",
    "failures", "notice", "minNodes", "sizes", "result", "end", "writer",
})  # fmt: skip


def dump(record: Record) -> str:
    """The text of *record*: one line of JSON with fixed keys, so that equal records are equal texts."""
    return json.dumps(
        {
            "version": VERSION,
            "job": record.job,
            "number": record.number,
            "phase": record.phase.value,
            "reason": record.reason.value,
            "plan": slots.dump(record.plan),
            "absent": slots.dump(record.absent),
            "suspects": sorted(record.suspects),
            "sealed": record.sealed,
            "members": [str(m) for m in record.members],
            "store": record.store,
            "failures": record.failures,
            "notice": record.notice and {"id": record.notice.id, "graceSeconds": record.notice.grace_seconds},
            "minNodes": record.min_nodes,
            "sizes": slots.dump(record.sizes),
            "result": record.result.value,
            **({"end": record.end} if record.end else {}),
            "writer": record.writer,
            **(json.loads(record.more) if record.more else {}),
        },
        separators=(",", ":"),
    )


def parse(text: str) -> Record:
    """The record that *text* holds.

    Raises:
        NewerError: it is of a version to come.
        RecordError: it holds none: not JSON, too long, a field missing or of the wrong kind, or an invariant of
            :class:`Record` broken.
    """
    if len(text) > MAX_BYTES:
        raise RecordError(f"the round record has {len(text)} characters, more than {MAX_BYTES}")
    try:
        data = json.loads(text)
        return _from_json(data)
    except NewerError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise RecordError(f"unreadable round record: {error}") from error


def _from_json(data: Any) -> Record:
    version = _count(data["version"])
    if version > VERSION:
        raise NewerError(f"a round record of version {version}, and {VERSION} is understood here: upgrade to read it")
    if version != VERSION:
        raise RecordError(f"no version of a round record: {version}")
    return Record(
        job=_text(data["job"]),
        number=_count(data["number"]),
        phase=Phase(data["phase"]),
        reason=Reason(data["reason"]),
        plan=slots.parse(_text(data["plan"])),
        absent=slots.parse(_text(data["absent"])),
        suspects=frozenset(_nonce(s) for s in data["suspects"]),
        sealed=_count(data["sealed"]),
        members=tuple(Member.parse(_text(m)) for m in data["members"]),
        store=_store(data["store"]),
        failures=_count(data["failures"]),
        notice=_notice(data["notice"]),
        min_nodes=_count(data.get("minNodes", 0)),  # a writer of an older version does not know it, nor the sizes
        sizes=slots.parse(_text(data.get("sizes", "")), most=slots.MAX_SLOTS),
        result=Result(data["result"]),
        end=_text(data.get("end", ""))[:MAX_END],
        writer=_text(data["writer"]),
        more=_more({key: value for key, value in data.items() if key not in _KEYS}),
    )


def _more(unknown: dict[str, Any]) -> str:
    text = json.dumps(unknown, separators=(",", ":"), sort_keys=True) if unknown else ""
    return text if len(text) <= MAX_MORE else ""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise RecordError(f"expected text, found {value!r}")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_NUMBER:
        raise RecordError(f"expected a whole number from 0 to {MAX_NUMBER}, found {value!r}")
    return value


def _nonce(value: Any) -> str:
    if not _NONCE.fullmatch(_text(value)):
        raise RecordError(f"not a process nonce: {value!r}")
    return str(value)


def _store(value: Any) -> str:
    if _text(value) and not STORE_ADDRESS.fullmatch(value):
        raise RecordError(f"not address:port: {value!r}")
    return str(value)


def _notice(value: Any) -> Notice | None:
    return None if value is None else Notice(_text(value["id"]), _count(value["graceSeconds"]))
