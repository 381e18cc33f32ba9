"""Whether the members of the running round are alive: found out over the round's own store, without the API.

A thread beats and listens; rank 0 hears every member, the others hear rank 0. It only reports who is silent: what is
done about it is decided elsewhere, for the API may be slow and a pulse must not wait.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING

from elasticjob_rendezvous import links, meeting, stores

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from elasticjob_rendezvous.round.record import Member

logger = logging.getLogger("elasticjob_rendezvous")

LAST_INTERVAL = 0.1
"""Seconds between two beats in the exit barrier, where all wait for the last one."""

_SECOND_OPINION = 1.6
"""Others wait so many times longer than rank 0 before they call rank 0 silent: its verdict on them comes first."""


class Pulse:
    """The life signs of one round. ``silent`` and ``heard`` may be read from any thread."""

    def __init__(
        self,
        place: meeting.Place,
        store: stores.TCPStore | None = None,
        *,
        interval: float,
        silence: float,
        number: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        self.silent: frozenset[int] = frozenset()
        """Ranks whose process is gone or has been silent for too long."""
        self.heard = 0
        """The highest round number that any member has told of."""
        self.ended = False
        """Whether every member's agent is in torch's exit barrier."""
        self._ending = False
        self._mute = False
        self._busy = False
        self._unanswered = 0.0
        self._place, self._interval, self._silence = place, interval, silence
        self._store = store
        """A connection to rank 0's store of my own, once: to make one may take long where name service is slow."""
        self._number, self._changed = number, changed
        self._missed: dict[int, int] = {}
        self._last: dict[int, str] = {}
        self._stopped = threading.Event()
        self._root = stores.split(place.record.store)
        self._thread = threading.Thread(target=self._run, name="elasticjob-pulse", daemon=True)

    @property
    def number(self) -> int:
        """The round's number."""
        return self._place.number

    @property
    def _pace(self) -> float:
        """Seconds between two beats at present."""
        return LAST_INTERVAL if self._ending else self._interval

    @property
    def _level(self) -> int:
        """How loud a lost peer is told of: once a later round is known, it is mostly that one's doing."""
        return logging.INFO if self._number() <= self.number else logging.DEBUG

    def members(self, ranks: Collection[int]) -> list[Member]:
        """The members that have *ranks*."""
        return [self._place.record.members[rank] for rank in sorted(ranks)]

    def start(self) -> Pulse:
        if self._place.size > 1:
            self._thread.start()
        return self

    def stop(self) -> threading.Thread:
        """Ends the thread soon; it is returned for who must wait for it."""
        self._stopped.set()
        return self._thread

    def mute(self) -> None:
        """My workers have stopped: the others must not go on because they hear me. I go on listening."""
        self._mute = True

    def await_end(self) -> None:
        """From now on look out for the end of the exit barrier as well."""
        self._ending = True

    def tick(self, seconds: float) -> None:
        """To be called by another thread, every few *seconds*: an operation on a stopped server never returns.

        The caller leaves out time in which the process stood still, for the reason that :meth:`_hear` counts beats.
        """
        self._unanswered = self._unanswered + seconds if self._busy else 0.0
        if self._unanswered > self._silence * _SECOND_OPINION:
            self._report({0})

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._beat_on()
            except Exception as error:  # noqa: BLE001 - torch raises RuntimeErrors of its own; the store may be gone
                if not self._stopped.is_set():
                    lost = stores.line(error)
                    logger.log(self._level, "round %d: connection to rank 0's store lost: %s", self.number, lost)
                    if self._ask_root() is links.Peer.GONE and self._number() > self.number:
                        return  # a store that was let go, while I wait for a round: there is nothing more to hear

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Around operations that the server must answer. One that fails is not answered, nor are the tries after it.

        A machine without power refuses nothing: each try to reach it takes seconds, and only counting them would take
        most of a minute.
        """
        self._busy = True
        yield
        self._busy = False

    def _ask_root(self) -> links.Peer:
        """The store did not answer: is its process gone, or only its network slow?"""
        found = links.asked(self._root)
        if found is links.Peer.GONE:
            self._report({0})
        else:
            self._miss([0])
        self._stopped.wait(self._interval)
        return found

    def _beat_on(self) -> None:
        """Beats until stopped or the store fails."""
        place, me = self._place, self._place.rank
        ranks = [0] if me else list(range(1, place.size))
        with self._asking():
            store, self._store = self._store or stores.join(*self._root, timeout=self._silence), None
            member = meeting.Meeting(place, store)
            addresses = {0: self._root} if me else member.addresses()
        with_links = links.Links(addresses)
        try:
            count = 0
            while not self._stopped.is_set():
                count += 1
                with self._asking():
                    if not self._mute:
                        member.beat(count, self._number())
                    beats = member.beats(ranks)
                    self.ended = self.ended or (self._ending and member.ended)
                self._hear(beats)
                self._listen(with_links)
        finally:
            with_links.close()

    def _listen(self, with_links: links.Links) -> None:
        """Waits one interval; a broken link is reported in the middle of it."""
        until = time.monotonic() + self._pace
        while not self._stopped.is_set() and (left := until - time.monotonic()) > 0:
            self._report(with_links.gone(min(left, 0.2)))

    def _hear(self, beats: dict[int, str]) -> None:
        """Counts missed beats rather than seconds: time in which this process itself stood still counts for nothing."""
        new = {rank for rank, beat in beats.items() if self._last.get(rank) != beat}
        self._last.update(beats)
        for rank in new:
            self._missed[rank] = 0
        heard = max(map(meeting.seen_in, beats.values()), default=0)
        if heard > self.heard:
            self.heard = heard
            self._changed()
        self._miss([rank for rank in beats if rank not in new])

    def _miss(self, ranks: list[int]) -> None:
        allowed = self._silence / self._pace * (_SECOND_OPINION if self._place.rank else 1.0)
        for rank in ranks:
            self._missed[rank] = self._missed.get(rank, 0) + 1
        self._report({rank for rank in ranks if self._missed[rank] >= allowed})

    def _report(self, ranks: set[int]) -> None:
        new = ranks - self.silent
        if new and not self._stopped.is_set():
            level = self._level
            for member in self.members(new):
                logger.log(level, "round %d: slot %d (%s) is silent", self.number, member.slot, member.nonce)
            self.silent |= new
            self._changed()
