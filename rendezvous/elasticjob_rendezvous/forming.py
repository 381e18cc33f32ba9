"""From "no workers" to "a member of a sealed round, and all members are there": what ``next_rendezvous`` does.

Runs in torchrun's main thread: asks ``round/agent.py`` for the next action, carries it out, and waits for news. API
trouble makes it wait, never end; only a decision, a deadline or a signal ends it.
"""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING

from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousTimeoutError

from elasticjob_rendezvous import kube, meeting, mirror, stores
from elasticjob_rendezvous.round import agent
from elasticjob_rendezvous.round.record import Member

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elasticjob_rendezvous.round.record import Record
    from elasticjob_rendezvous.session import Session

logger = logging.getLogger("elasticjob_rendezvous")

TICK = 0.5
"""Seconds after which a decision is made anew although nothing changed: staggers and last calls are due by then."""

READ_AGAIN = 10.0
"""Seconds after which a waiting agent reads the record itself, for its watch may have gone quiet."""

LOOK_AGAIN = 2.0
"""Seconds between two looks at a slot's Lease that another process holds."""

REFUSED_PATIENCE = 30.0
"""Standalone: seconds that rights may be missing. RBAC rules take a moment to be in force."""

SAY_AGAIN = 60.0
"""Seconds after which the log repeats what still keeps this process from going on."""


class Forming:
    """One call of ``next_rendezvous``."""

    def __init__(self, session: Session, server: stores.TCPStore | None) -> None:
        self.server = server
        """This agent's own store for the round to come; a fresh one is bound where there is none."""
        self._session = session
        self._began = time.monotonic()
        self._arrived_at = self._began
        self._enough_since: float | None = None
        self._read_at = self._looked_at = self._began
        self._refused_since: float | None = None
        self._said: tuple[str, float] = ("", 0.0)
        self._pause = mirror.FIRST_PAUSE
        self._problem = ""

    def run(self) -> meeting.Attempt:
        """The check-in that succeeded: my place in the round that was formed, and connections to its store."""
        while True:
            self._session.changed.clear()
            self._check_deadline()
            try:
                formed = self._step()
                self._refused_since, self._pause = None, mirror.FIRST_PAUSE
            except kube.UnreachableError as error:
                self._rest(error, error.retry_after)
            except kube.KubeError as error:
                self._endure(error)
            else:
                if formed is not None:
                    self._session.look(wanted=False)
                    return formed

    def _step(self) -> meeting.Attempt | None:
        session = self._session
        if not self._seated() or session.seat is None:
            session.changed.wait(TICK)
            return None
        self._keep_fresh()
        view = session.board.view
        action = agent.decide(self._situation(view.record))
        if isinstance(action, agent.Wait):
            self._report(view.problem)
            session.look(wanted=action.look or session.config.planned is False)
            session.changed.wait(TICK)
        elif isinstance(action, agent.Arrive):
            self._arrive(action)
        elif isinstance(action, agent.Write):
            session.write(view, action)
        elif isinstance(action, agent.CheckIn):
            return self._check_in(action.record)
        else:
            self._leave(action)
        return None

    # What is known

    def _situation(self, record: Record | None) -> agent.Situation:
        session, now = self._session, time.monotonic()
        leases = session.leases()
        enough = record and leases and len(agent.arrived(session.me, record, leases)) >= session.config.low
        self._enough_since = (self._enough_since or now) if enough else None
        seat = session.seat
        return agent.Situation(
            me=session.me,
            record=record,
            own=seat.sighting() if seat else None,
            held=bool(seat and seat.held),
            left=session.left,
            why=session.why,
            silent=session.silent(),
            leases=leases,
            waited=now - self._arrived_at,
            enough=now - self._enough_since if self._enough_since else 0.0,
            seen=session.board.highest,
            stagger=session.timers.stagger,
            last_call=session.timers.last_call_timeout,
        )

    def _keep_fresh(self) -> None:
        """Reads what the watch should have told, and the Lease of a slot that is not ours yet."""
        session, now = self._session, time.monotonic()
        if session.board.synced and now - self._read_at > READ_AGAIN:
            self._read_at = now + random.uniform(0, READ_AGAIN / 2)  # noqa: S311 - jitter, no secret
            session.board.refresh()
        seat = session.seat
        if seat and not seat.held and (seat.sighting() is None or now - self._looked_at > LOOK_AGAIN):
            self._looked_at = now
            seat.read()

    def _seated(self) -> bool:
        """Whether a slot is chosen. Standalone without a number of one's own: the lowest that is free."""
        session = self._session
        if session.config.slot is not None or (session.seat and (session.seat.held or self._still_free())):
            return True
        session.look(wanted=True)
        leases = session.leases()
        if leases is None:
            return False
        taken = {slot for slot, seen in leases.items() if not seen.dead and seen.lease.pod != session.pod}
        slot = next(slot for slot in range(len(taken) + 1) if slot not in taken)
        session.sit(slot)
        return True

    def _still_free(self) -> bool:
        seat = self._session.seat
        seen = seat.sighting() if seat else None
        return seen is None or seen.dead or seen.lease.pod == self._session.pod

    # What is done

    def _arrive(self, action: agent.Arrive) -> None:
        session = self._session
        if session.seat is None:
            raise AssertionError("arrives without a slot")
        if self.server is None:
            self.server = stores.bind(session.address)
        store = stores.joined(session.address, self.server.port)
        if action.take:
            done = session.seat.take(action.number, store)
        else:
            done = session.seat.write(arrived=action.number, store=store, seen=action.number, **session.news())
        if done:
            self._arrived_at, self._enough_since = time.monotonic(), None
            logger.info("%s arrives for round %d at %s", session.label(), action.number, store)

    def _leave(self, action: agent.Leave) -> None:
        """Ends the process, as decided. What the decision rests on is read once more: a stale view must not end it."""
        session = self._session
        session.board.refresh()
        if session.seat is not None:
            session.seat.read()
        if not isinstance(agent.decide(self._situation(session.board.view.record)), agent.Leave):
            return
        logger.log(logging.ERROR if action.code else logging.INFO, "%s ends: %s", session.label(), action.message)
        session.release()
        raise SystemExit(action.code)

    # The check-in

    def _check_in(self, record: Record) -> meeting.Attempt | None:
        """The check-in once all members are there; None when the round has come to nothing."""
        session = self._session
        rank = record.members.index(Member(session.me.slot, session.nonce))
        if self.server is None:
            raise AssertionError("a member without a store of its own")
        place = meeting.Place(record, rank, stores.joined(session.address, self.server.port))
        attempt = meeting.Attempt(place, None if rank else self.server)
        attempt.start()
        try:
            return self._all_there(place, attempt)
        finally:
            attempt.stop()
            self._session.threads.append(attempt)

    def _all_there(self, place: meeting.Place, attempt: meeting.Attempt) -> meeting.Attempt | None:
        """Waits for *go*, for as long as rank 0 may need to judge who does not come; then judges rank 0."""
        patience = self._session.timers.check_in * (1 if place.rank == 0 else 2)
        until = time.monotonic() + patience
        while not self._gone_by(place):
            if attempt.done.wait(meeting.POLL):
                if attempt.store is not None:
                    return attempt
                logger.info("%s: check-in to round %d: %s", self._session.label(), place.number, attempt.problem)
                self._accuse(place, {0})
                return None
            if time.monotonic() > until:
                self._accuse(place, set(attempt.missing) if place.rank == 0 else {0})
                return None
        return None

    def _gone_by(self, place: meeting.Place) -> bool:
        record = self._session.board.view.record
        return record is not None and (record.number != place.number or not record.running)

    def _accuse(self, place: meeting.Place, ranks: set[int]) -> None:
        session = self._session
        view = session.board.view
        if view.record is None or view.record.number != place.number or not ranks or not self._turn_comes(place):
            return
        silent = [place.record.members[rank] for rank in ranks]
        verdict = agent.judged(view.record, session.me, silent, session.list_leases())
        if verdict is not None:
            session.write(view, verdict)

    def _turn_comes(self, place: meeting.Place) -> bool:
        """Waits for as long as the members before me need to say it. Whether it is still to be said."""
        until = time.monotonic() + place.stagger
        while not self._gone_by(place):
            if time.monotonic() >= until:
                return True
            time.sleep(meeting.POLL)
        return False

    # Patience

    def _check_deadline(self) -> None:
        limit = self._session.timers.join_timeout
        if limit and time.monotonic() - self._began > limit:
            raise RendezvousTimeoutError(f"no round of enough nodes within {limit:g} s: {self._where()}")

    def _where(self) -> str:
        session, view = self._session, self._session.board.view
        if view.record is None:
            return f"at least {session.config.low} are needed, {view.problem}"
        leases: Mapping[int, agent.Sighting] = session.leases() or {}
        here = sorted(agent.arrived(session.me, view.record, leases))
        least = agent.least(session.me, view.record)
        return f"at least {least} are needed, round {view.record.number} is {view.record.phase.value}, arrived: {here}"

    def _report(self, problem: str) -> None:
        if problem != self._problem and self._session.board.synced:
            self._problem = problem
            if problem:
                logger.warning("%s waits: %s", self._session.label(), problem)

    def _rest(self, error: kube.KubeError, wish: float = 0.0) -> None:
        text, now = str(error), time.monotonic()
        if text != self._said[0] or now - self._said[1] >= SAY_AGAIN:
            self._said = text, now
            logger.warning("%s can't go on yet: %s", self._session.label(), text)
        time.sleep(max(wish, self._pause * random.uniform(0.5, 1.0)))  # noqa: S311 - jitter, no secret
        self._pause = min(self._pause * 2, mirror.LONGEST_PAUSE)

    def _endure(self, error: kube.KubeError) -> None:
        """Refused. With an operator never the end: a moment of the cluster's must not cost all nodes of a job."""
        now = time.monotonic()
        self._refused_since = self._refused_since or now
        if not self._session.config.planned and now - self._refused_since > REFUSED_PATIENCE:
            raise RendezvousConnectionError(str(error)) from error
        self._rest(error, 1.0)
