"""What can go wrong between the operator and the API server: what becomes of a request, its reply, a watch's events.

Each fault only says so; the proxy carries it out, for the jobs of one namespace.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_PATH = re.compile(r"/namespaces/(?P<namespace>[^/]+)/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?")

JOBS = "elasticjobs"
LATE = 1.0
"""Seconds that make a reply or an event late: enough for the operator to have looked meanwhile."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    namespace: str = ""
    plural: str = ""
    name: str = ""
    watch: bool = False

    @property
    def writes(self) -> bool:
        return self.method != "GET" and self.plural != "events"

    @property
    def lists(self) -> bool:
        return self.method == "GET" and not self.name and not self.watch


def asked(method: str, path: str, query: Mapping[str, str]) -> Asked:
    """What a request is about."""
    found = _PATH.search(path)
    parts = {k: v or "" for k, v in found.groupdict().items()} if found else {}
    return Asked(method, **parts, watch=query.get("watch") == "true")


@dataclasses.dataclass(frozen=True)
class Answer:
    """What is answered in the API server's place."""

    status: int
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        return {"kind": "Status", "code": self.status, "reason": "Injected", "message": "a fault was injected"}


class Fault:
    """Nothing goes wrong. Others say what does."""

    silences = True
    """Whether it keeps events from the operator. Not those of the jobs themselves: who misses them ends itself."""

    def __init__(self) -> None:
        self.hits = 0
        """How often something has gone wrong."""

    async def answer(self, what: Asked) -> Answer | None:
        """What is answered without asking the API server; ``None``: it is asked."""
        return None

    def cuts(self, what: Asked) -> bool:
        """Whether the connection is cut when the request has been carried out, instead of a reply."""
        return False

    def reply(self, what: Asked, where: str, body: bytes) -> bytes:
        """What the API server's reply becomes."""
        return body

    async def event(self, what: Asked, number: int, event: dict[str, Any]) -> dict[str, Any] | None:
        """What the *number*-th event of a watch becomes; ``None``: it is never told. ``EOFError`` ends the watch."""
        return event


class Refuses(Fault):
    """One request in four gets an error."""

    def __init__(self, status: int, *, reads: bool = False, seconds: int | None = None) -> None:
        super().__init__()
        self._answer = Answer(status, {"Retry-After": str(seconds)} if seconds is not None else {})
        self._reads = reads
        self._chance = random.Random(status)  # noqa: S311 - a fixed rhythm could always meet the same request

    async def answer(self, what: Asked) -> Answer | None:
        meant = what.writes or (self._reads and not what.watch)
        if not meant or self._chance.random() >= 1 / 4:
            return None
        self.hits += 1
        return self._answer


class LosesReplies(Fault):
    """Every third write is carried out, and nobody is told."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def cuts(self, what: Asked) -> bool:
        self._count += what.writes
        lost = what.writes and self._count % 3 == 0
        self.hits += lost
        return lost


class FreezesARequest(Fault):
    """The tenth write is never answered: the connection stands, and nothing comes."""

    async def answer(self, what: Asked) -> Answer | None:
        self.hits += what.writes
        if what.writes and self.hits == 10:
            await asyncio.Event().wait()
        return None


class IsSlow(Fault):
    """Each request takes its time."""

    async def answer(self, what: Asked) -> Answer | None:
        self.hits += 1
        await asyncio.sleep(0 if what.watch else LATE / 4)
        return None


class ServesStaleLists(Fault):
    """Every other list of a kind is the one before: of two API servers one lags behind."""

    def __init__(self, plural: str) -> None:
        super().__init__()
        self._plural = plural
        self._before: dict[str, tuple[int, bytes]] = {}

    def reply(self, what: Asked, where: str, body: bytes) -> bytes:
        if not what.lists or what.plural != self._plural:
            return body
        number, before = self._before.get(where, (0, body))
        self._before[where] = number + 1, body
        self.hits += number % 2 and before != body
        return before if number % 2 else body


class DelaysEvents(Fault):
    """Events come late, and all after one another."""

    async def event(self, what: Asked, number: int, event: dict[str, Any]) -> dict[str, Any] | None:
        self.hits += 1
        await asyncio.sleep(LATE / 5)
        return event


class HoldsEvents(Fault):
    """Of every five events the first is held, and with it those behind; then all come at once."""

    async def event(self, what: Asked, number: int, event: dict[str, Any]) -> dict[str, Any] | None:
        if number % 5 == 0:
            self.hits += 1
            await asyncio.sleep(2 * LATE)
        return event


class DropsEvents(Fault):
    """Events of these types never come."""

    def __init__(self, *types: str) -> None:
        super().__init__()
        self._types = types

    async def event(self, what: Asked, number: int, event: dict[str, Any]) -> dict[str, Any] | None:
        dropped = event["type"] in self._types
        self.hits += dropped
        return None if dropped else event


class FreezesWatches(Fault):
    """After three events a watch brings nothing more, not even its end."""

    async def event(self, what: Asked, number: int, event: dict[str, Any]) -> dict[str, Any] | None:
        if number >= 3:
            self.hits += 1
            await asyncio.Event().wait()
        return event


class EndsWatches(Fault):
    """After five events a watch is over: with 410, since what comes next is forgotten, or without a word."""

    silences = False

    def __init__(self, *, gone: bool) -> None:
        super().__init__()
        self._gone = gone

    async def event(self, what: Asked, number: int, event: dict[str, Any]) -> dict[str, Any] | None:
        if number < 5:
            return event
        self.hits += 1
        if number > 5 or not self._gone:
            raise EOFError
        return {"type": "ERROR", "object": {**Answer(410).body, "reason": "Expired"}}


def every_fault() -> dict[str, Fault]:
    """What a job has to live with, by name; each with nothing behind it yet."""
    return {
        "conflicts": Refuses(409),
        "refusals": Refuses(422),
        "too many requests": Refuses(429, reads=True, seconds=1),
        "server errors": Refuses(500, reads=True),
        "time-outs on the way": Refuses(504),
        "lost replies": LosesReplies(),
        "a frozen request": FreezesARequest(),
        "a slow server": IsSlow(),
        "stale pods": ServesStaleLists("pods"),
        "stale leases": ServesStaleLists("leases"),
        "delayed events": DelaysEvents(),
        "held events": HoldsEvents(),
        "dropped deletions": DropsEvents("DELETED"),
        "dropped events": DropsEvents("ADDED", "MODIFIED", "DELETED"),
        "frozen watches": FreezesWatches(),
        "forgotten history": EndsWatches(gone=True),
        "watches cut off": EndsWatches(gone=False),
    }
