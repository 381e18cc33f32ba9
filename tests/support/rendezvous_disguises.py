"""What a node is made to believe of its surroundings before it does anything. Each is called in the node's process."""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import Any


def same_machine() -> None:
    """The host's name and the process's number are those of every other node, as in pods on the host's network."""
    socket.gethostname = lambda: "node-1"
    socket.getfqdn = lambda name="": "node-1.example"
    os.getpid = lambda: 1


def nobodys_name() -> None:
    """This machine's name means nothing to anybody."""
    socket.gethostname = lambda: "x"
    socket.getfqdn = lambda name="": "x.invalid"


def late_names() -> None:
    """For a second no name resolves."""
    until, look_up = time.monotonic() + 1, socket.getaddrinfo

    def late(*args: Any, **options: Any) -> Any:
        if time.monotonic() < until:
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        return look_up(*args, **options)

    socket.getaddrinfo = late


def an_hour_ahead() -> None:
    """The wall clock is an hour fast."""
    _shifted(3600)


def an_hour_behind() -> None:
    """The wall clock is an hour slow."""
    _shifted(-3600)


def _shifted(seconds: float) -> None:
    import datetime as dt  # noqa: PLC0415 - replaced below

    true_time, true_datetime = time.time, dt.datetime
    time.time = lambda: true_time() + seconds

    class Shifted(true_datetime):  # type: ignore[misc,valid-type]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return true_datetime.now(tz) + dt.timedelta(seconds=seconds)

    dt.datetime = Shifted  # type: ignore[misc]


def failing_renewals() -> None:
    """The first renewals of the Lease fail in ways that no API server makes them fail."""
    from elasticjob_rendezvous import seat  # noqa: PLC0415 - only in a node

    write, errors = seat.Seat.write, [MemoryError("bad_alloc"), ValueError("no sense")]

    def failing(self: seat.Seat, **changes: Any) -> bool:
        if not changes and errors:
            raise errors.pop()
        return write(self, **changes)

    seat.Seat.write = failing  # type: ignore[method-assign]


def short_barrier() -> None:
    """The exit barrier's patience is over in no time."""
    from elasticjob_rendezvous import handler  # noqa: PLC0415 - only in a node

    handler.EXIT_BARRIER = 0.5


def quick_reading() -> None:
    """Rank 0 looks soon whether its watch has gone quiet."""
    from elasticjob_rendezvous import keeping  # noqa: PLC0415 - only in a node

    keeping.READ_AGAIN = 1.0


def impatient() -> None:
    """A standalone node gives up soon on an API server that refuses it or is not there."""
    from elasticjob_rendezvous import patience  # noqa: PLC0415 - only in a node

    patience.REFUSED = patience.UNREACHED = 1.0


def event_log() -> None:
    """torch's rendezvous events go to the log, as a user's tooling would have it."""
    from torch.distributed.elastic.events import handlers  # noqa: PLC0415 - only in a node

    handlers._log_handlers["dynamic_rendezvous"] = logging.StreamHandler()
