"""The members of a sealed round on rank 0's store: each claims its rank, and rank 0 says *go* when all have.

Nobody's workers start before *go*, so a member that died after the seal costs the members moments, not torch's 300 s.
Keys are the round's own; nothing that is read from them is trusted beyond being text.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from elasticjob_rendezvous import stores

if TYPE_CHECKING:
    from elasticjob_rendezvous.round.record import Record

_CLAIM, _AT, _BEAT, _COUNT, _FULL, _GO = "claim/", "at/", "beat/", "count", "full", "go"
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


class Meeting:
    """One member's view of one round's check-in, over a connection of its own."""

    def __init__(self, place: Place, store: Any) -> None:
        self._place = place
        self._store = stores.prefixed(f"elasticjob/{place.number}", store)

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

    def missing(self) -> set[int]:
        """Ranks that nobody, or somebody else than the record says, has claimed."""
        members = self._place.record.members
        return {
            rank
            for rank, member in enumerate(members)
            if not self._store.check([f"{_CLAIM}{rank}"]) or self._store.get(f"{_CLAIM}{rank}") != member.nonce.encode()
        }

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

    def beat(self, count: int, number: int) -> None:
        """Says that I am alive, and which round is the highest that I have seen."""
        self._store.set(f"{_BEAT}{self._place.rank}", f"{count} {number}")

    def beats(self, ranks: list[int]) -> dict[int, str]:
        """The last sign of life of each of *ranks*, all of whom have claimed."""
        values = self._store.multi_get([f"{_BEAT}{rank}" for rank in ranks])
        return {r: value[:_MAX_VALUE].decode(errors="replace") for r, value in zip(ranks, values, strict=True)}


def seen_in(beat: str) -> int:
    """The round number that a beat tells of, 0 if it tells of none."""
    number = beat.rpartition(" ")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 16 else 0  # noqa: PLR2004 - 2**53
