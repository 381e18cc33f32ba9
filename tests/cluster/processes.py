"""Finding and ending processes by what they are, never by a number that was written down.

A process number on disk may belong to somebody else by the time it is read. So a process is looked for by its command
line, pinned by a handle that the kernel never gives to another process, looked at again, and only then ended.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

END_SECONDS = 20.0

SETTLE_SECONDS = 5.0
"""A process that replaces its program has a program but no words until the new one is loaded: from a disk that nobody
has read from yet, and under load, that takes a while."""


@dataclass(frozen=True)
class Process:
    """A process as it was when it was looked at; `words` are its command line."""

    pid: int
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        """The name of the program it runs."""
        return Path(self.words[0]).name if self.words else ""

    @property
    def namespace(self) -> str:
        """The PID namespace it lives in; empty when it is gone."""
        try:
            return str(Path(f"/proc/{self.pid}/ns/pid").readlink())
        except OSError:
            return ""


Matcher = Callable[[Process], bool]


def look(pid: int) -> Process:
    """The process with this number now; without words if it is gone, a zombie or a kernel thread."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not (words := _words(pid)) and _has_program(pid) and time.monotonic() < deadline:
        time.sleep(0.001)
    return Process(pid, words)


def _words(pid: int) -> tuple[str, ...]:
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(word.decode(errors="replace") for word in data.split(b"\0")[:-1])


def _has_program(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return False


def find(matches: Matcher) -> list[Process]:
    """The processes that match, as the host sees them."""
    every = (look(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return [process for process in every if process.words and matches(process)]


def end(
    matches: Matcher, *, with_signal: signal.Signals = signal.SIGKILL, seconds: float = END_SECONDS
) -> list[Process]:
    """End every process that matches, wait until each is gone, and return those that would not go."""
    with contextlib.ExitStack() as stack:
        handles = [handle for process in find(matches) if (handle := _pinned(process, matches))]
        for handle in handles:
            stack.callback(handle.close)
        for handle in handles:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle.fd, with_signal)
        return [handle.process for handle in handles if not handle.gone_within(seconds)]


class _Handle:
    """A file descriptor that stands for one process for good."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.fd = os.pidfd_open(process.pid)

    def close(self) -> None:
        """Let go of the process."""
        os.close(self.fd)

    def gone_within(self, seconds: float) -> bool:
        """Wait for the process's end; a first process of a PID namespace ends after all others in it."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def _pinned(process: Process, matches: Matcher) -> _Handle | None:
    try:
        handle = _Handle(process)
    except ProcessLookupError:
        return None
    if matches(look(process.pid)):
        return handle
    handle.close()
    return None
