"""torch's ``RendezvousHandler`` on the round protocol: thin, and the place where torch's contract is kept.

What torch asks for from memory is answered from memory; nothing here raises but ``next_rendezvous``. No method closes
the job: torch calls ``shutdown`` after success and after any local error alike.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import random
import sys
import time
from typing import TYPE_CHECKING

from torch.distributed.elastic.events.api import NodeState
from torch.distributed.elastic.rendezvous import (
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousStoreInfo,
)

from elasticjob_rendezvous import (
    events,
    failures,
    forming,
    hearing,
    keeping,
    kube,
    meeting,
    memory,
    pulse,
    settings,
    stores,
)
from elasticjob_rendezvous.round import lease
from elasticjob_rendezvous.round.record import Phase, Reason
from elasticjob_rendezvous.session import Round, Session

if TYPE_CHECKING:
    from torch.distributed.elastic.rendezvous import RendezvousParameters

logger = logging.getLogger("elasticjob_rendezvous")

PEER_CHANCE = 0.25
"""Seconds in which a peer's death may show before a failure of my workers is called their own."""

EXIT_BARRIER = 300.0
"""Seconds: torch's own bound for its exit barrier."""

POLL = 0.1
"""Seconds between two looks at rank 0's store or the record while this process only waits for the end."""


def create(parameters: RendezvousParameters) -> KubernetesRendezvousHandler:
    """The handler for torchrun's *parameters*. Checks them; connects to nothing."""
    if not logger.hasHandlers():  # as torch does for its own: who reads a pod's log wants the story
        lines = logging.StreamHandler()
        lines.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(lines)
        logger.setLevel(logging.INFO)
    try:
        config = settings.parse(
            endpoint=parameters.endpoint,
            run_id=parameters.run_id,
            low=parameters.min_nodes,
            high=parameters.max_nodes,
            local_addr=parameters.local_addr,
            conf=parameters.config,
            env=os.environ,
        )
    except ValueError:
        events.failed(parameters.run_id, "create")
        raise
    return KubernetesRendezvousHandler(config)


class KubernetesRendezvousHandler(RendezvousHandler):
    """The backend ``kubernetes``."""

    def __init__(self, config: settings.Settings) -> None:
        self._config = config
        self._session: Session | None = None
        self._keeper: keeping.Keeper | None = None
        self._server: stores.TCPStore | None = None
        """My own store of the present round: kept, for it serves as long as it is referred to."""
        self._called = 0
        """The round whose workers torch was last told to stop: they did not fail."""
        self._ear = hearing.Ear()
        self._kills = memory.Kills()
        self._futile = 0
        """Rounds in a row that ended with failed workers and without progress."""

    # torch's contract

    def get_backend(self) -> str:
        return settings.BACKEND

    def get_run_id(self) -> str:
        return self._config.run_id

    @property
    def use_agent_store(self) -> bool:
        return stores.shared_with_workers()

    def is_closed(self) -> bool:
        record = self._session.board.view.record if self._session else None
        return record is not None and record.phase is Phase.CLOSED

    def set_closed(self) -> None:
        """Nothing: a node does not close its job. The operator does, or standalone a finish that all have recorded."""

    def num_nodes_waiting(self) -> int:
        self._ear.shut()  # torch asks once its workers run
        session = self._session
        if session is None:
            return 0
        if session.round is None or not session.over():
            return 0
        if self._called != session.round.number:
            self._called = session.round.number
            events.tell(session, "num_nodes_waiting", f"round {self._called} is over, its workers stop")
        return 1

    def next_rendezvous(self) -> RendezvousInfo:
        self._ear.shut()
        try:
            session = self._started()
        except RendezvousConnectionError:
            events.failed(self._config.run_id, "next_rendezvous")
            raise
        session.signals.listen()
        try:
            self._come_back(session)
            events.tell(session, "next_rendezvous", "attempts to join the next round")
            former = forming.Forming(session)
            return self._begin(session, former.run(), former.server)
        except BaseException as error:  # SystemExit and torch's SignalException too: the others must know
            if isinstance(error, Exception):
                events.failed(self._config.run_id, "next_rendezvous")
            session.leave()
            raise

    def shutdown(self) -> bool:
        """The agent ends: after success it stays while others need its store, after anything else it leaves."""
        self._ear.shut()  # torch never asked if its workers ended at once
        session = self._session
        if session is None:
            return True
        if session.round is not None and session.round.finished and sys.exc_info()[0] is None:
            self._stay(session, session.round)
        session.end()
        session.signals.close()
        if self._keeper:
            self._keeper.stop()
        return True

    # Its parts

    def _started(self) -> Session:
        if self._session is None:
            config = self._config
            try:
                api = kube.Kube(
                    kubeconfig=config.kubeconfig,
                    context=config.context,
                    namespace=config.namespace,
                    timeout=config.timers.heartbeat_timeout,
                )
                self._session = Session(config, api, api_url=api.host)
            except (kube.KubeError, ValueError) as error:
                raise RendezvousConnectionError(str(error)) from error
            self._session.board.start()
            self._keeper = keeping.Keeper(self._session).start()
            atexit.register(self._session.end)
        return self._session

    def _come_back(self, session: Session) -> None:
        """Why there are no workers any more: nobody says, so it is told from what is known."""
        current = session.round
        if current is None:
            return
        failure = failures.found(current.number, self._ear.said, out_of_memory=self._kills.more())
        progress = current.stepped or time.monotonic() - current.began > keeping.STEADY
        if self._called == current.number:
            session.left, session.why = current.number, Reason.AGENT_RESTARTED
        elif not session.over() and not self._peer_lost(session, current):
            session.left, session.why = current.number, Reason.WORKERS_FAILED
        own = session.left == current.number and session.why is Reason.WORKERS_FAILED
        self._futile = 0 if progress else self._futile + own
        session.round = None
        if failure is not None and session.seat is not None:
            killed = " (out of memory)" if failure.out_of_memory else ""
            what = f"exit code {failure.exit_code}{killed}: {failure.message or 'no traceback, no last words'}"
            logger.warning("%s: workers failed in round %d, first with %s", session.label(), current.number, what)
            session.failure = failure
        if own and self._futile > 1:
            self._pause(session, min(2.0 ** (self._futile - 2), keeping.LONGEST_DELAY))
        if session.left == current.number:  # not before the pause: it lasts longer than a member may be silent
            current.pulse.mute()

    def _peer_lost(self, session: Session, current: Round) -> bool:
        """Whether the workers failed because a peer died: it has a moment to show.

        Often all fail at once. One opens the next round, and most of the others hear of it before it is their turn.
        """
        spread = min(current.place.size / 1000, PEER_CHANCE)
        until = time.monotonic() + PEER_CHANCE + random.uniform(0, spread)  # noqa: S311 - jitter, no secret
        while time.monotonic() < until and not session.over():
            if current.pulse.silent:
                self._accuse(session, current)
                break
            time.sleep(POLL / 5)
        return session.over()

    def _accuse(self, session: Session, current: Round) -> None:
        """Opens a round without the silent ones, unless a member before me has done it when my turn comes."""
        if self._keeper and current.place.turn_comes(session.over):
            try:
                self._keeper.accuse(current)
            except kube.KubeError as error:
                logger.warning("%s: %s", session.label(), error)

    def _pause(self, session: Session, seconds: float) -> None:
        logger.warning("%s: %d rounds without progress, the next in %g s", session.label(), self._futile, seconds)
        until = time.monotonic() + seconds
        number = session.left
        session.tell_pause(lease.Pause(number, math.ceil(time.time() + seconds)))
        while time.monotonic() < until:
            record = session.board.view.record
            if record is not None and (record.number != number or record.phase is Phase.CLOSED):
                return
            time.sleep(POLL)

    def _begin(self, session: Session, formed: meeting.Attempt, server: stores.TCPStore | None) -> RendezvousInfo:
        """A round begins. The store of the one before is let go only now."""
        self._server = server
        place = formed.place
        agent_store = stores.AgentStore(
            place.number, formed.store, on_finish=self._on_finish, in_barrier=self._in_barrier
        )
        signs = pulse.Pulse(
            place,
            formed.second,
            interval=session.timers.beat_interval,
            silence=session.timers.silence,
            number=lambda: session.board.highest,
            changed=session.on_pulse,
        )
        session.train.begin(place.record)
        if session.signs is not None:
            session.threads = [t for t in session.threads if t.is_alive()] + [session.signs.stop()]
        session.signs = signs.start()
        session.round = Round(place, agent_store, signs, began=time.monotonic())
        session.urgent.set()
        address, _ = stores.split(place.record.store)
        logger.info("%s is rank %d of %d in round %d", session.label(), place.rank, place.size, place.number)
        events.tell(session, "next_rendezvous", f"joined round {place.number}, nodes: {place.size}")
        self._ear.forget()
        self._ear.open()
        return RendezvousInfo(agent_store, place.rank, place.size, RendezvousStoreInfo(address, place.port))

    # The end

    def _on_finish(self) -> None:
        """My workers have ended well. Recorded before torch's exit barrier is entered."""
        self._ear.shut()
        session = self._session
        if session is None or session.round is None or session.round.finished or session.seat is None:
            return
        number, seat = session.round.number, session.seat
        last = self._keeper.untold() if self._keeper else {}
        if session.insist(lambda: seat.write(finished=number, **last), "record its finish"):
            logger.info("%s has finished round %d", session.label(), number)
            events.tell(session, "shutdown", f"finished round {number}", NodeState.SUCCEEDED)
        session.round.finished = True
        session.round.pulse.await_end()

    def _in_barrier(self) -> None:
        """Waits in torch's exit barrier, no longer than there is something to wait for."""
        session = self._session
        if session is None or session.round is None:
            return
        until = time.monotonic() + EXIT_BARRIER
        while time.monotonic() < until and not self._ended(session, session.round):
            time.sleep(POLL)

    def _ended(self, session: Session, current: Round) -> bool:
        """Whether all have finished, or there is nobody left to wait for. Asks nobody: a peer's store may hang."""
        others = {0} if current.place.rank else set(range(1, current.place.size))
        return current.pulse.ended or others <= current.pulse.silent or self.is_closed() or session.over()

    def _stay(self, session: Session, current: Round) -> None:
        """Rank 0 stays while members work on its store; everybody until the finish is known to the job."""
        while current.place.rank == 0 and not self._ended(session, current):
            time.sleep(POLL)
        while not session.over() and not (session.seat and session.seat.lost):
            view = session.board.view
            known = view.record is not None and view.record.phase is not Phase.SEALED
            if not self._config.planned and session.board.synced and view.body is None:
                return  # the ConfigMap is gone, and nobody makes it anew for a job whose work is done
            if known and (self._config.planned or current.place.rank or self.is_closed()):
                return
            time.sleep(POLL)
