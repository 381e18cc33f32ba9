"""What goes on beside torchrun's main thread: the Lease, progress, watching over the round, leaving.

One thread, for one agent, from its first rendezvous to its end. An error in it is logged and the thread goes on: an
agent whose keeper died silently would be taken for dead while it trains.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING, Any

from elasticjob_rendezvous import kube, links, mirror, stores
from elasticjob_rendezvous.round import agent
from elasticjob_rendezvous.round.record import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from elasticjob_rendezvous import board
    from elasticjob_rendezvous.round.record import Record
    from elasticjob_rendezvous.session import Round, Session

logger = logging.getLogger("elasticjob_rendezvous")

TURN, IDLE_TURN = 0.2, 1.0
"""Seconds between two looks at what has no event of its own: the training script's file, the clock. Without workers
there is only the Lease to renew."""

STEADY = 60.0
"""A round that lasted so many seconds has made progress, whether or not its training script reports any."""

READ_AGAIN = 10.0
"""Seconds after which rank 0 reads the record itself, for its watch may have gone quiet. The others hear from it of a
later round: so one request a job is enough."""

LONGEST_DELAY = 60.0
"""Seconds between two rounds at most, when one after the other comes to nothing."""


class Keeper:
    """The background thread of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._stopped = threading.Event()
        self._renew_at = 0.0
        """Not before: while the API is in trouble."""
        self._urgent = False
        """Whether the Lease has to tell something that does not wait for its renewal."""
        self._renewed = self._interval = 0.0
        """When the Lease was last written, and the seconds from then to its renewal."""
        self._ticked_at = time.monotonic()
        self._pauses = mirror.Pauses()
        self._pending: dict[str, Any] = {}
        self._told: tuple[int, str] = (0, "")
        self._announced = False
        self._due: dict[str, float] = {}
        self._hasty = 0
        """Rounds in a row that this process opened on suspicion and that had not lasted."""
        self._joined_at = 0.0
        self._restless = 0
        """Rounds in a row that this process opened for newcomers and that had not lasted."""
        self._dead: set[str] = set()
        """Newcomers that were gone before they were let in, by nonce."""
        self._read_at = 0.0

    def start(self) -> Keeper:
        threading.Thread(target=self._run, name="elasticjob-keeper", daemon=True).start()
        return self

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._session.urgent.wait(self._rest)
            self._session.urgent.clear()
            self._turn()

    @property
    def _rest(self) -> float:
        """Seconds until the next turn, if nothing happens."""
        return TURN if self._session.round is not None else IDLE_TURN

    def _turn(self) -> None:
        """The Lease first, and each for itself: whatever fails, the slot is renewed as long as that works."""
        renewed, looked_after = self._tried(self._renew), self._tried(self._look_after)
        if renewed and looked_after:
            self._pauses.reset()
        else:
            self._stopped.wait(self._pauses.next())

    def _tried(self, part: Callable[[], None]) -> bool:
        try:
            part()
        except kube.KubeError as error:
            logger.warning("%s: %s", self._session.label(), error)
            return False
        except Exception:  # the thread must not die: see the module's docstring
            logger.exception("%s: the keeper goes on after an error", self._session.label())
            return False
        return True

    def _look_after(self) -> None:
        session = self._session
        if session.leaving.is_set() and not self._announced:
            self._announced = True
            session.announce()
        if session.signs is not None:
            session.signs.tick(self._elapsed())
        current = session.round  # once: the main thread may end it
        if current is not None:
            self._pass_on(current)
            self._watch_over(current)

    def _elapsed(self) -> float:
        """Seconds since the last call, a turn at most: time in which this process stood still counts for nothing."""
        before, self._ticked_at = self._ticked_at, time.monotonic()
        return min(self._ticked_at - before, self._rest)

    # The Lease

    def _renew(self) -> None:
        """Every write of the Lease renews it, whoever makes it and whatever for."""
        seat, now = self._session.seat, time.monotonic()
        if seat is None or not seat.held or seat.lost or now < self._renew_at:
            return
        if seat.renewed != self._renewed:  # at the first time the job's size has only just become known
            self._renewed, self._interval = seat.renewed, self._session.renewal()
        if not self._urgent and now - seat.renewed < self._interval:
            return
        self._renew_at = now + mirror.FIRST_PAUSE  # in case it fails
        if seat.write(**self._pending):
            self._pending, self._urgent = {}, False

    def _pass_on(self, current: Round) -> None:
        """Between agent and script. A round's first step and a checkpoint that was asked for go out at once."""
        session = self._session
        record = session.board.view.record
        if record is not None and record.number == current.number:
            session.train.notice(record.notice)
        if seconds := session.train.busy():
            self._pending["busy"] = seconds
        news = session.train.progress()
        if news is None:
            return
        progress, checkpointed = news
        urgent = bool(checkpointed) and self._told != (current.number, checkpointed)
        if progress is not None and progress.round == current.number and not current.stepped:
            current.stepped = urgent = True
        self._pending |= {"progress": progress, "checkpointed": checkpointed}
        if urgent:
            self._urgent, self._renew_at, self._told = True, 0.0, (current.number, checkpointed)

    def untold(self) -> dict[str, Any]:
        """What the training script has reported and the Lease does not say yet."""
        news = self._session.train.progress()
        if news is not None:
            self._pending |= dict(zip(("progress", "checkpointed"), news, strict=True))
        return dict(self._pending)

    # The round

    def _watch_over(self, current: Round) -> None:
        session = self._session
        view = session.board.view
        if view.record is not None and current.pulse.heard > view.record.number:
            view = session.board.refresh()  # others know more than my watch has told
        elif current.place.rank == 0 and self._is_time_to_read():
            view = session.board.refresh()
            session.relist()
        record = view.record
        if record is None or record.number != current.number or record.phase is Phase.CLOSED:
            self._due.clear()
        elif current.finished:
            self._finish(current, view, record)
        elif record.phase is Phase.SEALED and current.pulse.silent and self._is_due("accuse", current, self._haste()):
            self.accuse(current)
        elif not session.config.planned and current.place.rank == 0:
            self._take_in(current, view, record)

    def _is_time_to_read(self) -> bool:
        now = time.monotonic()
        due, self._read_at = now >= self._read_at > 0, self._read_at or now + READ_AGAIN
        if due:
            self._read_at = now + READ_AGAIN * random.uniform(0.8, 1.0)  # noqa: S311 - jitter, no secret
        return due

    def _is_due(self, what: str, current: Round, wait: float = 0.0) -> bool:
        """Whether *what* has been wanted for as long as the members before me would need to do it."""
        now = time.monotonic()
        return now >= self._due.setdefault(what, now + current.place.stagger + wait)

    def _haste(self) -> float:
        """Seconds before another round is opened on suspicion, when rounds opened so did not last."""
        return min(2.0 ** (self._hasty - 1), LONGEST_DELAY) if self._hasty > 0 else 0.0

    def accuse(self, current: Round) -> bool:
        """Opens the next round without the silent ones, if that is for me to do."""
        session = self._session
        view = session.board.view
        if view.record is None or view.record.number != current.number or not current.pulse.silent:
            return False
        verdict = agent.judged(view.record, session.me, session.silent(), session.list_leases())
        if verdict is None or not session.write(view, verdict):
            return False
        self._hasty = self._hasty + 1 if time.monotonic() - current.began < STEADY else 0
        return True

    def _finish(self, current: Round, view: board.View, record: Record) -> None:
        """My workers have ended well: the round is finishing, and standalone the last one closes."""
        session = self._session
        what, wait = ("finishing", 0.5) if record.phase is Phase.SEALED else ("close", 1.0)
        if (what == "close" and session.config.planned) or not self._is_due(
            what, current, wait * bool(current.place.rank)
        ):
            return
        self._due[what] = time.monotonic() + 1.0
        leases = session.list_leases() if what == "close" else {}
        write = agent.after_finish(session.me, record, leases)
        if write is not None:
            session.write(view, write)

    def _take_in(self, current: Round, view: board.View, record: Record) -> None:
        """Standalone, rank 0: opens a round for newcomers, once those that come together have come.

        The less the last such rounds have lasted the longer it waits: a node that comes and goes must not keep all the
        others from training. Who is gone already is not waited for.
        """
        session, now = self._session, time.monotonic()
        session.look(wanted=True)
        leases = session.leases() or {}
        here = [leases[slot].lease for slot in agent.newcomers(record, leases, session.me)]
        if not any(new.nonce not in self._dead for new in here):
            self._joined_at = 0.0
            return
        self._joined_at = self._joined_at or now
        wait = min(session.timers.last_call_timeout / 2 * 2.0**self._restless, LONGEST_DELAY)
        if now - self._joined_at < wait:
            return
        self._dead |= {new.nonce for new in here if links.asked(stores.split(new.store)) is links.Peer.GONE}
        if any(new.nonce not in self._dead for new in here):
            opened = agent.taken_in(record)
            if session.write(view, agent.Write(opened, f"opens round {opened.number}: newcomers wait")):
                self._restless = self._restless + 1 if now - current.began < STEADY else 0
