"""What the handler's threads share: the API, the record, the slot's Lease, the Leases while somebody looks, the round.

Holds state and answers questions about it; decides nothing (``round/agent.py`` does) and keeps no time but its own.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import resource
import threading
import time
from typing import TYPE_CHECKING

from elasticjob_rendezvous import board, events, identity, kube, mirror, seat, signals, stores, traindir
from elasticjob_rendezvous.round import agent, lease
from elasticjob_rendezvous.round.record import Member, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from elasticjob_rendezvous import meeting, pulse, settings

logger = logging.getLogger("elasticjob_rendezvous")

OPEN_FILES = 65536
"""As many as an agent may want. Rank 0 holds a few for each member, and one for each worker on its store."""

LEAVE_TRIES = 3
"""A leaving node tries so often to tell; whoever can't is found out by its silence."""


@dataclasses.dataclass
class Round:
    """The round in which this agent has workers."""

    place: meeting.Place
    store: stores.AgentStore
    pulse: pulse.Pulse
    began: float
    stepped: bool = False
    """Whether the workers have reported a step of this round."""
    finished: bool = False
    """Whether the workers have ended well."""

    @property
    def number(self) -> int:
        return self.place.number


class Session:
    """One agent process's part in one job."""

    def __init__(self, config: settings.Settings, api: kube.Api, *, api_url: str) -> None:
        _allow_open_files()
        self.config, self.timers, self.api = config, config.timers, api
        self.nonce = identity.nonce()
        self.pod = identity.pod_uid(config.pod_uid)
        self._api_url, self._address = api_url, config.address
        self.changed = threading.Event()
        """Set whenever something was learned that a decision may rest on."""
        self.leaving = threading.Event()
        self.urgent = threading.Event()
        """Set with what the keeper should not sleep over: a peer that is gone, a signal."""
        self.round: Round | None = None
        self.signs: pulse.Pulse | None = None
        """The pulse of the last round: listened to until the next one has begun."""
        self.threads: list[threading.Thread] = []
        """Those that were told to stop but may still be using a store."""
        self.roots: set[int] = set()
        """Ports of the stores that they may be using."""
        self.left, self.why = 0, Reason.WORKERS_FAILED
        self.failure: lease.Failure | None = None
        """My workers' last failure, told with the next arrival."""
        self.seat: seat.Seat | None = None
        self.train = traindir.TrainDir()
        self.signals = signals.Listener(self._on_signal)
        self.board = board.Board(
            api, job_name=config.name, job=config.run_id, nonce=self.nonce, changed=self.changed.set
        )
        self._leave_until = 0.0
        self._leases: mirror.Mirror | None = None
        self._looking = threading.Lock()
        self._parsed: dict[str, tuple[kube.Object, agent.Sighting]] = {}
        """What stands in the Leases, by name, with the objects that was read in: a thousand are looked at often."""
        self._odd: dict[str, str] = {}
        """Leases that carry this job's label and are not, or not wholly, believed: in which version."""
        if config.slot is not None:
            self.sit(config.slot)

    def _on_signal(self) -> None:
        self.leaving.set()
        self.urgent.set()

    def on_pulse(self) -> None:
        """Something was learned from the round's members."""
        self.changed.set()
        self.urgent.set()

    @property
    def address(self) -> str:
        """Where this process is reached.

        Raises:
            UnreachableError: that can't be found out yet.
        """
        try:
            self._address = self._address or identity.address("", self._api_url)
        except OSError as error:
            raise kube.UnreachableError(
                f"no address to advertise yet, for the way to {self._api_url} is not known: {error} (or give one with "
                "--local-addr or --rdzv-conf address=IP)"
            ) from error
        return self._address

    @property
    def limit(self) -> float:
        """How long my Lease may stand still while I live."""
        return self.timers.fence + self.timers.stop

    def sit(self, slot: int) -> None:
        """Chooses a slot, to be taken."""
        self.seat = seat.Seat(
            self.api,
            job_name=self.config.name,
            job=self.config.run_id,
            slot=slot,
            pod=self.pod,
            nonce=self.nonce,
            limit=self.limit,
        )

    @property
    def me(self) -> agent.Process:
        config = self.config
        return agent.Process(
            job=config.run_id,
            slot=self.seat.slot if self.seat else -1,
            nonce=self.nonce,
            pod=self.pod,
            low=config.low,
            high=config.high,
            planned=config.planned,
        )

    def news(self) -> dict[str, lease.Failure]:
        """What an arrival tells besides."""
        return {"failure": self.failure} if self.failure else {}

    def tell_pause(self, pause: lease.Pause) -> None:
        """Says in the Lease that the workers have failed, and when the next round comes: nothing rests on it."""
        seat = self.seat
        if seat is not None:
            self._tried(lambda: seat.write(pause=pause, **self.news()), "tell of its pause")

    def silent(self) -> frozenset[Member]:
        """Members of the last sealed round that are not heard any more."""
        record = self.board.view.record
        if self.signs is None or record is None or self.signs.number != record.sealed:
            return frozenset()
        return frozenset(self.signs.members(self.signs.silent))

    # The Leases

    def look(self, *, wanted: bool) -> None:
        """Begins or ends to watch all Leases."""
        with self._looking:
            if wanted and self._leases is None:
                selector = seat.selector(self.config.name)
                self._leases = mirror.Mirror(self.api, kube.LEASE, selector, self.changed.set).start()
            elif not wanted and self._leases is not None:
                self._leases.stop()
                self._leases = None

    def relist(self) -> None:
        """While somebody looks: the Leases as they are now."""
        watched = self._leases
        if watched is not None and watched.synced:
            watched.refresh()

    @property
    def looking(self) -> int:
        """How many Leases are being watched."""
        watched = self._leases
        return len(watched.objects) if watched is not None else 0

    def leases(self) -> dict[int, agent.Sighting] | None:
        """All Leases, while somebody looks."""
        watched = self._leases  # once: another thread may end the look
        return self._sighted(list(watched.objects.values())) if watched is not None and watched.synced else None

    def trouble(self) -> kube.KubeError | None:
        """What the watches meet with at present."""
        watched = self._leases
        return self.board.trouble or (watched.trouble if watched else None)

    def list_leases(self) -> dict[int, agent.Sighting]:
        """All Leases, asked for now."""
        items, _ = self.api.list(kube.LEASE, seat.selector(self.config.name))
        return self._sighted([mirror.Seen(body, time.monotonic()) for body in items])

    def another_run_lives(self) -> bool:
        """Whether a slot's Lease is held by a process of another run under the same name, as far as I can tell."""
        watched = self._leases
        if watched is None or not watched.synced:
            return True
        found = [self._read(seen) for seen in watched.objects.values()]
        return any(s is not None and not s.dead and s.lease.job not in ("", self.config.run_id) for s in found)

    def _sighted(self, objects: list[mirror.Seen]) -> dict[int, agent.Sighting]:
        found = [self._read(seen) for seen in objects]
        return {s.lease.slot: seat.of_run(s, self.config.run_id) for s in found if s is not None}

    def _read(self, seen: mirror.Seen) -> agent.Sighting | None:
        name = str(seen.body["metadata"].get("name"))
        known = self._parsed.get(name)
        if known is not None and known[0] is seen.body:
            return agent.Sighting(known[1].lease, still=time.monotonic() - seen.since, limit=known[1].limit)
        try:
            sighting = seat.sighted(seen, default_limit=self.limit)
        except (LookupError, ValueError, TypeError) as error:
            self._wonder(seen, f"a Lease that is none of ours: {error}")
            return None
        if sighting.lease.refused:
            self._wonder(seen, f"a part of a Lease: {', '.join(sighting.lease.refused)}")
        self._parsed[name] = seen.body, sighting
        return sighting

    def _wonder(self, seen: mirror.Seen, why: str) -> None:
        """Told once a version of a Lease: all agents look several times a second."""
        name = str(seen.body["metadata"].get("name"))
        if self._odd.get(name) != seen.version:
            self._odd[name] = seen.version
            events.refused("lease", f"{name}: {why}")

    # The round with workers

    def over(self) -> bool:
        """Whether the workers of the present round must stop. Answers from memory."""
        if self.round is None:
            return False
        if self.board.view.other_run and not self.config.planned:
            return True
        record = self.board.view.record
        gone_on = record is not None and agent.over(record, self.me, self.round.number)
        return gone_on or self.fenced() or bool(self.seat and self.seat.lost)

    def fenced(self) -> bool:
        """Whether the API was out of reach for so long that others may soon take me for dead."""
        return bool(self.seat and self.seat.held and time.monotonic() - self.seat.renewed > self.timers.fence)

    def renewal(self) -> float:
        """Seconds until the next renewal of the Lease.

        A large job leaves most of the fencing bound to an API server that is out of reach, however large it is: two
        thirds of it, 80 s.
        """
        return min(self.spaced(self.timers.renew_interval), self.timers.fence / 3) * random.uniform(0.8, 1.0)  # noqa: S311 - jitter, no secret

    def spaced(self, seconds: float) -> float:
        """Seconds between two requests that every agent makes for itself, about *seconds* in a small job.

        All of a job's agents together make fewer than ten a second. While a round is open all who are wanted are there.
        """
        record = self.board.view.record
        size = max(len(record.members), len(record.plan)) if record else 0
        return 1.25 * max(seconds, size / 10)

    # Leaving

    def leave(self) -> None:
        """Ends this process's part: a round that counts on it goes on without it, its slot is free. Never closes.

        Only for a process without workers: while they run, the slot is theirs.
        """
        pauses = mirror.Pauses()
        self._leave_until = self._leave_until or time.monotonic() + self.timers.close_timeout
        while not (self._settled() and self.announce() and self.release(wanted=self._wanted())):
            if time.monotonic() >= self._leave_until:
                return
            time.sleep(pauses.next())

    def end(self) -> None:
        """The process ends: its part in the job, and its threads."""
        self.leave()
        if self.signs is not None:
            self.threads.append(self.signs.stop())
        stores.join_threads(self.threads, self.roots)
        self.threads.clear()

    def _settled(self) -> bool:
        """Whether it is known if the slot is ours."""
        return self.seat is None or self._tried(self.seat.settle, "read its slot")

    def announce(self) -> bool:
        """Lets the job go on without this process, whose workers may still use their grace. False if it may yet."""
        if self.seat is None or not self.seat.held or self.seat.lost or (self.round and self.round.finished):
            return True
        return self._tried(self._tell, "tell that it leaves")

    def release(self, *, wanted: bool = False) -> bool:
        """Frees the slot, *wanted* or not. A finish stays recorded in it. False if that may yet come about."""
        seat = self.seat
        if seat is None or (self.round and self.round.finished):
            return True
        return self._tried(lambda: seat.release(wanted=wanted), "release its slot")

    def _wanted(self) -> bool:
        record = self.board.view.record
        return record is not None and agent.wanted(self.me, record)

    def _tried(self, part: Callable[[], object], what: str) -> bool:
        try:
            part()
        except kube.KubeError as error:
            logger.warning("%s can't %s: %s", self.label(), what, error)
            return not isinstance(error, kube.UnreachableError)
        return True

    def _tell(self) -> None:
        for _ in range(LEAVE_TRIES):
            view = self.board.view
            new = agent.without(self.me, view.record) if view.record else None
            if new is None:
                return
            if self.board.write(view, new):
                logger.info("%s leaves round %d", self.label(), new.sealed)
                return

    def label(self) -> str:
        """How log lines name this process."""
        return f"job {self.config.name}: slot {self.seat.slot if self.seat else '-'} ({self.nonce})"

    def write(self, view: board.View, action: agent.Write) -> bool:
        """Carries out a decision to write the record."""
        done = self.board.write(view, action.record)
        if done:
            logger.info("%s %s", self.label(), action.what)
        return done

    def insist(self, attempt: Callable[[], bool], what: str) -> bool:
        """Tries until there is an outcome, however long the API is out of reach. The process waits for nothing else."""
        pauses = mirror.Pauses()
        while True:
            try:
                return attempt()
            except kube.KubeError as error:
                logger.warning("%s can't %s yet: %s", self.label(), what, error)
                time.sleep(pauses.next())


def _allow_open_files() -> None:
    """Raises the soft limit of open files, which often is 1024, towards the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        logger.info("the limit of open files stays at %d: %s", soft, error)
