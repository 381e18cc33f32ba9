"""The members of a sealed round on rank 0's store: each claims its rank, and rank 0 says *go* when all have.

Nobody's workers start before *go*, so a member that died after the seal costs the members moments, not torch's 300 s.
Keys are the round's own; nothing that is read from them is trusted beyond being text.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import TYPE_CHECKING, Any

from elasticjob_rendezvous import links, stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from elasticjob_rendezvous.round.record import Record

_CLAIM, _AT, _BEAT, _COUNT, _FULL, _GO = "claim/", "at/", "beat/", "count", "full", "go"
FIRST_POLL, POLL, POLLS = 0.005, 0.05, 4000.0
"""Seconds between two looks at rank 0's store, and how many looks a second all members together take at most: the store
answers 20,000."""

STAGGER, LONGEST_STAGGER = 0.05, 60.0
"""Seconds between one member and the next who would write the same thing, and for the last of them. Each lists all
Leases before: a thousand Leases twenty times a second are all that an API server can do."""

PATIENCE = 1.0
"""Seconds between two looks at how many have claimed their ranks, and for rank 0 at who has not."""

_MAX_VALUE = 512
"""Longest value that is looked at."""


class TakenError(Exception):
    """Another process has claimed this rank."""


@dataclasses.dataclass(frozen=True)
class Place:
    """My place in a round."""

    record: Record
    rank: int
    address: str
    """Of my own store, by which rank 0 tells whether this process is there."""
    port: int = 0
    """Where the round's workers meet, at rank 0's address. Known once rank 0 has said *go*."""

    @property
    def number(self) -> int:
        return self.record.number

    @property
    def size(self) -> int:
        return len(self.record.members)

    @property
    def nonce(self) -> str:
        return self.record.members[self.rank].nonce

    @property
    def stagger(self) -> float:
        """Seconds that the members before me get to do what one has to do. Rank 1 is the first that outlives rank 0."""
        return min(max(0, self.rank - 1) * STAGGER, LONGEST_STAGGER)

    @property
    def poll(self) -> float:
        """Seconds between two looks at what tells nothing by itself."""
        return max(POLL, self.size / POLLS)

    def turn_comes(self, done: Callable[[], bool]) -> bool:
        """Waits for as long as the members before me need to do what one has to do. Whether it is not *done* then."""
        until = time.monotonic() + self.stagger
        while not done():
            left = until - time.monotonic()
            if left <= 0:
                return True
            time.sleep(min(left, self.poll))
        return False


class Meeting:
    """One member's view of one round's check-in, over a connection of its own."""

    def __init__(self, place: Place, store: Any) -> None:
        self._place = place
        self._store = stores.prefixed(f"elasticjob/{place.number}", store)
        self._agents = stores.prefixed(stores.agent_prefix(place.number), store)

    def claim(self) -> None:
        """Claims my rank for my process; again and again is the same as once.

        Raises:
            TakenError: another process has it.
        """
        place, key = self._place, f"{_CLAIM}{self._place.rank}"
        if not self._store.check([key]):
            self._store.set(f"{_AT}{place.rank}", place.address)
            self.beat(0, place.number)
            owner = self._store.compare_set(key, "", place.nonce)
            if owner == place.nonce.encode() and self._store.add(_COUNT, 1) >= place.size:
                self._store.set(_FULL, "")
        if self._store.get(key) != place.nonce.encode():
            raise TakenError(f"rank {place.rank} of round {place.number} is another process's")

    def missing(self, among: Iterable[int]) -> frozenset[int]:
        """Those ranks *among* these that nobody, or somebody else than the record says, has claimed."""
        members = self._place.record.members
        return frozenset(
            rank
            for rank in among
            if not self._store.check([f"{_CLAIM}{rank}"])
            or self._store.get(f"{_CLAIM}{rank}") != members[rank].nonce.encode()
        )

    @property
    def claimed(self) -> int:
        """How many ranks were claimed."""
        return int(self._store.add(_COUNT, 0))

    @property
    def full(self) -> bool:
        """Whether every rank was claimed."""
        return bool(self._store.check([_FULL]))

    def say_go(self, port: int) -> None:
        """Rank 0: lets everybody start, with workers that meet at *port* of rank 0's address."""
        self._store.set(_GO, str(port))

    @property
    def going(self) -> bool:
        """Whether rank 0 has said *go*."""
        return bool(self._store.check([_GO]))

    @property
    def port(self) -> int:
        """Where the workers meet, once rank 0 has said *go*: at the round's store, or where theirs is to be."""
        text = self._store.get(_GO)[:_MAX_VALUE].decode(errors="replace")
        if not text.isascii() or not text.isdecimal():
            return stores.split(self._place.record.store)[1]
        return int(text)

    def addresses(self) -> dict[int, tuple[str, int]]:
        """Where the other members' stores are, by rank. For rank 0, after all have claimed."""
        others = [rank for rank in range(self._place.size) if rank != self._place.rank]
        values = self._store.multi_get([f"{_AT}{rank}" for rank in others]) if others else []
        found = {}
        for rank, value in zip(others, values, strict=True):
            text = value[:_MAX_VALUE].decode(errors="replace")
            if stores.ADDRESS.fullmatch(text):
                found[rank] = stores.split(text)
        return found

    @property
    def ended(self) -> bool:
        """Whether torch's exit barrier is complete."""
        return bool(self._agents.check([stores.BARRIER_COMPLETE]))

    def beat(self, count: int, number: int) -> None:
        """Says that I am alive, and which round is the highest that I have seen."""
        self._store.set(f"{_BEAT}{self._place.rank}", f"{count} {number}")

    def beats(self, ranks: list[int]) -> dict[int, str]:
        """The last sign of life of each of *ranks*, all of whom have claimed."""
        values = self._store.multi_get([f"{_BEAT}{rank}" for rank in ranks])
        return {r: value[:_MAX_VALUE].decode(errors="replace") for r, value in zip(ranks, values, strict=True)}


class Attempt(threading.Thread):
    """One member's check-in to one round, in a thread of its own: an operation on a stopped server never returns.

    ``done`` is set once all members are there, with the ``store``, or when rank 0 is gone, with the ``problem``. A
    rank 0 that only can't be reached is tried again: its own verdict comes first.
    """

    def __init__(self, place: Place, own: stores.TCPStore | None) -> None:
        super().__init__(name="elasticjob-check-in", daemon=True)
        self.done = threading.Event()
        self.store: stores.TCPStore | None = None
        self.second: stores.TCPStore | None = None
        """Another connection to the same store, for the pulse."""
        self.problem = ""
        self.missing = frozenset(range(place.size))
        """For rank 0: whose claim it has not seen."""
        self.moved = time.monotonic()
        """When the check-in was last seen to go on: a thousand members of a busy machine may need a while."""
        self.place = place
        """With the workers' port, once done."""
        self._place, self._own = place, own
        self._claimed = 0
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Ends the thread soon."""
        self._stopped.set()

    def run(self) -> None:
        while not self._stopped.is_set() and not self.done.is_set():
            try:
                self._try()
            except Exception as error:  # noqa: BLE001 - a thread that dies silently would be waited for in vain
                self.problem = stores.line(error)
                self._stopped.wait(links.PROBE_TIMEOUT / 10)

    def _try(self) -> None:
        root = stores.split(self._place.record.store)
        store = self._own
        if store is None:
            peer = links.asked(root)
            if peer is links.Peer.GONE:
                self.problem = "rank 0's process is gone"
                self.done.set()
            if peer is not links.Peer.THERE:
                return
            store = stores.join(*root, timeout=stores.OPERATION_TIMEOUT)
        self.second = stores.join(*root, timeout=stores.OPERATION_TIMEOUT)
        members, self.moved = Meeting(self._place, store), time.monotonic()
        if self._all_there(members):
            self.place, self.store = dataclasses.replace(self._place, port=members.port), store
            self.done.set()

    def _all_there(self, members: Meeting) -> bool:
        """Claims my rank and waits for *go*, or for all and says it."""
        pause, look_at = FIRST_POLL, time.monotonic() + PATIENCE
        members.claim()
        while not self._stopped.is_set():
            if self._place.rank and members.going:
                return True
            if time.monotonic() > look_at:
                self._look(members)
                look_at = time.monotonic() + PATIENCE
            if self._place.rank == 0 and (members.full or not self.missing):
                members.say_go(stores.port_for_workers(self._place.record.store))
                return True
            self._stopped.wait(pause)
            pause = min(pause * 1.5, self._place.poll)
        return False

    def _look(self, members: Meeting) -> None:
        """Whether others have come since the last look, and for rank 0 who has not. A claim stays."""
        claimed = members.claimed
        if claimed != self._claimed:
            self._claimed, self.moved = claimed, time.monotonic()
        if self._place.rank == 0:
            self.missing = members.missing(self.missing)


def seen_in(beat: str) -> int:
    """The round number that a beat tells of, 0 if it tells of none."""
    number = beat.rpartition(" ")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 16 else 0  # noqa: PLR2004 - 2**53
