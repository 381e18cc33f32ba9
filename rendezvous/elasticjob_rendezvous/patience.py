"""How long a rendezvous may come to nothing, and which of torch's errors ends it then.

With an operator only its own deadlines end an agent: a moment of the cluster's must not cost all nodes of a job. A
standalone agent has nobody else who would notice that it waits for something that never comes.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from torch.distributed.elastic.rendezvous import (
    RendezvousConnectionError,
    RendezvousError,
    RendezvousStateError,
    RendezvousTimeoutError,
)

from elasticjob_rendezvous import kube, mirror

if TYPE_CHECKING:
    from collections.abc import Callable

    from elasticjob_rendezvous.session import Session

logger = logging.getLogger("elasticjob_rendezvous")

REFUSED = 30.0
"""Standalone: seconds that rights may be missing. RBAC rules take a moment to be in force."""

UNREACHED = 60.0
"""Standalone: seconds in which an API server must be reached for the first time. Name service may be late."""

SAY_AGAIN = 60.0
"""Seconds after which the log repeats what still keeps this process from going on."""


class Patience:
    """One call of ``next_rendezvous``: what it has waited for, and for how long."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._began = time.monotonic()
        self._refused_since: float | None = None
        self._said: tuple[str, float] = ("", 0.0)
        self._pauses = mirror.Pauses()
        self._problem = ""

    def check(self, where: Callable[[], str]) -> None:
        """Raises if it has been long enough. *where* tells what is there.

        Raises:
            RendezvousTimeoutError: no round of enough nodes within ``join_timeout``.
            RendezvousStateError: the same, because of a record that can't be read.
            RendezvousConnectionError: the API server was not reached, or refuses what is needed.
        """
        session, waited = self._session, time.monotonic() - self._began
        if not session.config.planned:
            self._check_api(waited)
        limit = session.timers.join_timeout
        if not limit or waited <= limit:
            return
        view = session.board.view
        unreadable = view.record is None and view.body is not None
        kind: type[RendezvousError] = RendezvousStateError if unreadable else RendezvousTimeoutError
        raise kind(f"no round of enough nodes within {limit:g} s: {where()}")

    def _check_api(self, waited: float) -> None:
        """What the watching threads have met with."""
        trouble = self._session.trouble()
        if isinstance(trouble, kube.UnreachableError):
            if not self._session.board.synced and waited > UNREACHED:
                raise RendezvousConnectionError(
                    f"no API server within {UNREACHED:g} s, is its address right and the network open? {trouble}"
                ) from trouble
        elif trouble is not None:
            self._refused(trouble)

    def made(self) -> None:
        """The API did as it was asked."""
        self._pauses.reset()
        if self._session.trouble() is None:
            self._refused_since = None

    def rest(self, error: kube.KubeError, wish: float = 0.0) -> None:
        """Says what went wrong, once in a while, and waits before the next try."""
        text, now = str(error), time.monotonic()
        if text != self._said[0] or now - self._said[1] >= SAY_AGAIN:
            self._said = text, now
            logger.warning("%s can't go on yet: %s", self._session.label(), text)
        time.sleep(max(wish, self._pauses.next()))

    def endure(self, error: kube.KubeError) -> None:
        """Refused, in whatever way: with an operator never the end."""
        if not self._session.config.planned:
            self._refused(error)
        self.rest(error, 1.0)

    def _refused(self, error: kube.KubeError) -> None:
        now = time.monotonic()
        self._refused_since = self._refused_since or now
        if now - self._refused_since > REFUSED:
            raise RendezvousConnectionError(str(error)) from error

    def report(self, problem: str) -> None:
        """Says once what is waited for."""
        if problem != self._problem and self._session.board.synced:
            self._problem = problem
            if problem:
                logger.warning("%s waits: %s", self._session.label(), problem)
