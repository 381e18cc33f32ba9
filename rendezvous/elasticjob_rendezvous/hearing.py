"""What workers say on standard error: passed on as it comes, and the end of it remembered, to tell why they failed.

A worker that leaves no error file, a plain script above all, says nowhere else why it fails. Workers inherit the
agent's standard error. While torch starts them that is a pipe of this module's, and a thread passes on to where it went
before whatever comes through. The agent's own lines go there directly again as soon as its workers run.
"""

from __future__ import annotations

import array
import atexit
import collections
import contextlib
import fcntl
import logging
import os
import re
import select
import sys
import termios
import threading
import time

logger = logging.getLogger("elasticjob_rendezvous")

STDERR = 2
KEPT = 16 * 1024
"""Bytes that are remembered: several tracebacks."""

PIPE = 1024 * 1024
"""Bytes that may be on their way, so that nobody waits for a thread of a busy process."""

SETTLE, DRAIN = 0.5, 1.0
"""Seconds in which what has been said is passed on: when it is asked for, and when the process ends."""

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\t\n -~\u00a0-\U0010ffff]")
"""What a terminal would act on: colours, and whatever else is not text."""


class Ear:
    """The workers' standard error. Does nothing outside the main thread, where torch starts no workers."""

    def __init__(self) -> None:
        self._said: collections.deque[tuple[float, bytes]] = collections.deque()
        self._size = 0
        self._pipe: tuple[int, int] | None = None
        self._out = -1
        self._hears = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._own = re.compile(rf"[IWEF]\d{{4}} [\d:.]+ {os.getpid()} torch/|\[[^]]+\] [A-Z]+ {logger.name}: ")
        """Log lines of this very process, torch's and ours: torch may tell of a failure before it asks us anything."""

    def open(self) -> None:
        """Who is started from now on is heard."""
        if threading.current_thread() is not threading.main_thread():
            return
        if sys.__stderr__ is None:  # this process began without one: that descriptor is some other file's now
            return
        try:
            if self._pipe is None:
                self._start()
            if self._pipe is not None:
                os.dup2(self._pipe[1], STDERR)
                self._hears = True
        except OSError as error:  # no standard error any more, or no descriptors left
            logger.info("what workers say on standard error is not heard: %s", error)

    def shut(self) -> None:
        """The agent's own standard error is as it was."""
        if self._hears and threading.current_thread() is threading.main_thread():
            os.dup2(self._out, STDERR)
            self._hears = False

    def said(self, until: float) -> str:
        """The end of what the workers have said up to this moment (seconds since 1970), without what is not text."""
        patience = time.monotonic() + SETTLE
        while self._waiting() and time.monotonic() < patience:
            time.sleep(SETTLE / 50)
        with self._lock:
            text = b"".join(chunk for at, chunk in self._said if at <= until).decode(errors="replace")
        lines = (_CONTROL.sub("", line.rstrip("\r").rpartition("\r")[2]) for line in text.split("\n"))
        theirs = (line.rstrip() for line in lines if not self._own.match(line))
        return "\n".join(theirs).strip("\n")

    def forget(self) -> None:
        """New workers: what others have said is not theirs."""
        with self._lock:
            self._said.clear()
            self._size = 0

    def close(self) -> None:
        """The process ends: last words are passed on, unless somebody who is left goes on talking."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None and self._thread is not None:
            self.shut()
            os.close(pipe[1])
            self._thread.join(DRAIN)

    def _start(self) -> None:
        self._out = os.dup(STDERR)
        self._pipe = os.pipe()
        with contextlib.suppress(OSError, AttributeError):  # more than this process, or this system, may have
            fcntl.fcntl(self._pipe[1], fcntl.F_SETPIPE_SZ, PIPE)
        self._thread = threading.Thread(target=self._listen, args=(self._pipe[0],), name="elasticjob-ear", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _listen(self, pipe: int) -> None:
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        while chunk := self._next(pipe, poll):
            with contextlib.suppress(OSError):  # nobody reads it any more, which must not end those who write
                while chunk:
                    chunk = chunk[os.write(self._out, chunk) :]

    def _next(self, pipe: int, poll: select.poll) -> bytes:
        """What is said next. Once it has left the pipe it is remembered before anybody asks."""
        poll.poll()
        with self._lock:
            chunk = os.read(pipe, 65536)
            if chunk:
                self._remember(chunk)
        return chunk

    def _remember(self, chunk: bytes) -> None:
        self._said.append((time.time(), chunk[-KEPT:]))
        self._size += len(self._said[-1][1])
        while self._size - len(self._said[0][1]) >= KEPT:
            self._size -= len(self._said.popleft()[1])

    def _waiting(self) -> int:
        """Bytes that are on their way."""
        count = array.array("i", [0])
        if self._pipe is not None:
            fcntl.ioctl(self._pipe[0], termios.FIONREAD, count)
        return count[0]
