"""From "no workers" to "a member of a sealed round, and all members are there": what ``next_rendezvous`` does.

Runs in torchrun's main thread: asks ``round/agent.py`` for the next action, carries it out, and waits for news. API
trouble makes it wait, never end; only a decision, a deadline or a signal ends it.
"""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING

from torch.distributed.elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousGracefulExitError,
    RendezvousStateError,
)

from elasticjob_rendezvous import kube, links, meeting, patience, seating, stores
from elasticjob_rendezvous.round import agent
from elasticjob_rendezvous.round.record import Member, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elasticjob_rendezvous import board
    from elasticjob_rendezvous.round.record import Record
    from elasticjob_rendezvous.session import Session

logger = logging.getLogger("elasticjob_rendezvous")

TICK = 0.5
"""Seconds after which a decision is made anew although nothing changed: staggers and last calls are due by then."""

TICKS = 250.0
"""So many times a second, at most, all of a job's agents together decide anew while they only wait to be told."""

LOOK_SECONDS, OTHERS_LOOK_SECONDS = 5e-5, 5e-4
"""Seconds between two looks at all Leases, for each of them: while they arrive one by one, a look costs a fifth of
that. The second is for all but the slot whose turn to seal comes first."""

READ_AGAIN, LONGEST_READ = 8.0, 60.0
"""Seconds after which a waiting agent reads the record itself, for its watch may have gone quiet; longer in large jobs,
and that at most: as often as a watch that lives brings a bookmark."""

LOOK_AGAIN = 2.0
"""Seconds between two looks at a slot's Lease that another process holds."""

ASK_AFTER, ASK_AGAIN = 20.0, 5.0
"""Seconds after which an awaited slot's process is asked whether it is there, and between two who are asked. Sooner an
operator may still fill the slot, for which a change of its leader is time enough."""

FIRST_WRITE = 0.3
"""Standalone: seconds over which the first writes of nodes that start at once are spread, as torch spreads its own."""

LONGEST_TURN = 2.0
"""Standalone: seconds that the last of many waits for the others to write."""


class Forming:
    """One call of ``next_rendezvous``."""

    def __init__(self, session: Session) -> None:
        self.server: stores.TCPStore | None = None
        """This agent's own store for the round to come, bound when it first arrives."""
        self._session = session
        self._began = time.monotonic()
        self._arrived_at = self._began
        self._enough_since: float | None = None
        self._read_at = self._looked_at = self._asked_at = self._began
        self._gone: frozenset[str] = frozenset()
        self._patience = patience.Patience(session)
        self._seating = seating.Seating(session)

    def run(self) -> meeting.Attempt:
        """The check-in that succeeded: my place in the round that was formed, and connections to its store."""
        while True:
            self._session.changed.clear()
            self._patience.check(self._where)
            try:
                formed = self._step()
                self._patience.made()
            except kube.UnreachableError as error:
                self._patience.rest(error, error.retry_after)
            except kube.KubeError as error:
                self._patience.endure(error)
            else:
                if formed is not None:
                    self._session.look(wanted=False)
                    return formed

    def _step(self) -> meeting.Attempt | None:
        session = self._session
        if not self._seating.chosen() or session.seat is None:
            session.changed.wait(TICK)
            return None
        self._keep_fresh()
        view = session.board.view
        if view.newer or self._taken(view):
            advice = "" if view.newer else ". Give each run a name of its own (--rdzv-endpoint), or wait for its end"
            self._patience.report(view.problem + advice)
            session.look(wanted=True)
            session.changed.wait(TICK)
            return None
        situation = self._situation(view.record)
        action = agent.decide(situation)
        if isinstance(action, agent.Wait):
            self._patience.report(view.problem)
            self._ask_for_the_missing(situation)
            session.look(wanted=action.look or session.config.planned is False)
            session.changed.wait(TICK if session.looking else self._tick(view.record))
            time.sleep(self._pause(situation))
        elif isinstance(action, agent.Arrive):
            self._arrive(action)
        elif isinstance(action, agent.Write):
            time.sleep(self._turn(view.record))
            if session.board.view is view:
                session.write(view, action)
        elif isinstance(action, agent.CheckIn):
            return self._check_in(action.record)
        else:
            self._leave(action)
        return None

    def _pause(self, at: agent.Situation) -> float:
        """Seconds between two looks at all Leases, which a thousand nodes change one by one."""
        first = at.record is None or not at.me.planned or agent.turn(at, at.record) == 0
        return self._session.looking * (LOOK_SECONDS if first else OTHERS_LOOK_SECONDS)

    def _tick(self, record: Record | None) -> float:
        """Seconds after which who does not look at the Leases decides anew, although nothing changed."""
        return max(TICK, len(record.plan) / TICKS) if record else TICK

    def _taken(self, view: board.View) -> bool:
        """Standalone: whether another run uses this name. Its remains are no hindrance: that it is over can be seen."""
        session = self._session
        return bool(view.other_run) and not session.config.planned and not view.over and session.another_run_lives()

    def _turn(self, record: Record | None) -> float:
        """Standalone: seconds to leave to others what all may do at once: the first to arrive in slot order does it.

        With an operator only the first slots look at the Leases at all (``round/agent.py``).
        """
        session = self._session
        if session.config.planned:
            return 0.0
        if record is None:
            return random.uniform(0, FIRST_WRITE)  # noqa: S311 - jitter, no secret
        here = agent.arrived(session.me, record, session.leases() or {})
        before = sum(1 for slot in here if session.seat and slot < session.seat.slot)
        return min(before * meeting.STAGGER, LONGEST_TURN)

    # What is known

    def _situation(self, record: Record | None) -> agent.Situation:
        session, now = self._session, time.monotonic()
        leases = session.leases()
        alone = not session.config.planned  # with an operator nobody asks for what this costs
        enough = alone and record and leases and len(agent.arrived(session.me, record, leases)) >= session.config.low
        self._enough_since = (self._enough_since or now) if enough else None
        seat = session.seat
        return agent.Situation(
            me=session.me,
            record=record,
            own=seat.sighting() if seat else None,
            held=bool(seat and seat.held),
            left=session.left,
            why=session.why,
            fenced=session.fenced(),
            silent=session.silent(),
            gone=self._gone,
            leases=leases,
            waited=now - self._arrived_at,
            enough=now - self._enough_since if self._enough_since else 0.0,
            seen=session.board.highest,
            stagger=session.timers.stagger,
            last_call=session.timers.last_call_timeout,
        )

    def _keep_fresh(self) -> None:
        """Reads what the watch should have told, the Lease of a slot that is not ours yet, and what became of a write
        whose reply was lost: the round may have been sealed on an arrival that its own process does not know of.
        """
        session, now = self._session, time.monotonic()
        if session.seat:
            session.seat.settle()
        if session.board.synced and now - self._read_at > min(session.spaced(READ_AGAIN), LONGEST_READ):
            self._read_at = now + random.uniform(0, READ_AGAIN / 2)  # noqa: S311 - jitter, no secret
            session.board.refresh()
        seat = session.seat
        if seat and not seat.held and (self._seating.unknown or now - self._looked_at > LOOK_AGAIN):
            self._looked_at = now
            seat.read()

    def _ask_for_the_missing(self, at: agent.Situation) -> None:
        """Whether one of those who are waited for is gone: a slot may be held by a process that died unnoticed.

        One at a time, for a machine that is gone refuses nothing, and to ask it takes as long as a probe may take.
        """
        now = time.monotonic()
        if at.record is None or at.leases is None or at.record.phase is not Phase.OPEN:
            return
        if at.waited < ASK_AFTER or now - self._asked_at < ASK_AGAIN:
            return
        self._asked_at = now
        held = [own for own in agent.missed(at, at.record, at.leases).values() if own is not None and own.store]
        asked = random.choice(held) if held else None  # noqa: S311 - no secret
        if asked is not None and links.asked(stores.split(asked.store)) is links.Peer.GONE:
            self._gone |= {asked.nonce}
            logger.info("%s does not wait for slot %d (%s): it is gone", self._session.label(), asked.slot, asked.nonce)

    # What is done

    def _arrive(self, action: agent.Arrive) -> None:
        session = self._session
        if session.seat is None:
            raise AssertionError("arrives without a slot")
        if action.take:
            self._seating.refuse_twin()
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
        lost = session.seat is not None and session.seat.lost
        session.release()
        if action.code == 0:  # torch's agent dies of its own GracefulExitError with 1, up to 2.15 (pytorch#194710)
            raise SystemExit(0) from RendezvousGracefulExitError(action.message)
        raise (RendezvousStateError if lost else RendezvousClosedError)(action.message)

    # The check-in

    def _check_in(self, record: Record) -> meeting.Attempt | None:
        """The check-in once all members are there; None when the round has come to nothing."""
        session = self._session
        rank = record.members.index(Member(session.me.slot, session.nonce))
        if self.server is None:
            raise AssertionError("a member without a store of its own")
        place = meeting.Place(record, rank, stores.joined(session.address, self.server.port))
        session.roots.add(stores.split(record.store)[1])
        attempt = meeting.Attempt(place, None if rank else self.server)
        attempt.start()
        try:
            return self._all_there(place, attempt)
        finally:
            attempt.stop()
            self._session.threads.append(attempt)

    def _all_there(self, place: meeting.Place, attempt: meeting.Attempt) -> meeting.Attempt | None:
        """Waits for *go* while members come, and as long again as rank 0 may need to judge who does not; then judges.

        How long all of them need says nothing: a thousand may take a minute on a busy machine.
        """
        patience = self._session.timers.check_in * (1 if place.rank == 0 else 2)
        while not self._gone_by(place) and not self._session.fenced():
            if attempt.done.wait(place.poll):
                if attempt.store is not None:
                    return attempt
                logger.info("%s: check-in to round %d: %s", self._session.label(), place.number, attempt.problem)
                self._accuse(place, {0})
                return None
            if time.monotonic() - attempt.moved > patience:
                self._accuse(place, set(attempt.missing) if place.rank == 0 else {0})
                return None
        return None

    def _gone_by(self, place: meeting.Place) -> bool:
        record = self._session.board.view.record
        return record is not None and (record.number != place.number or not record.running)

    def _accuse(self, place: meeting.Place, ranks: set[int]) -> None:
        session = self._session
        view = session.board.view
        if view.record is None or view.record.number != place.number or not ranks:
            return
        if not place.turn_comes(lambda: self._gone_by(place)):
            return
        silent = [place.record.members[rank] for rank in ranks]
        verdict = agent.judged(view.record, session.me, silent, session.list_leases())
        if verdict is not None:
            session.write(view, verdict)

    # Patience

    def _where(self) -> str:
        session, view = self._session, self._session.board.view
        if view.record is None:
            return f"at least {session.config.low} are needed, {view.problem}"
        leases: Mapping[int, agent.Sighting] = session.leases() or {}
        here = sorted(agent.arrived(session.me, view.record, leases))
        least = agent.least(session.me, view.record)
        return f"at least {least} are needed, round {view.record.number} is {view.record.phase.value}, arrived: {here}"
