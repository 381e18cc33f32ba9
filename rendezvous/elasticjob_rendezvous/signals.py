"""SIGTERM means that this node leaves. Torch tells a handler nothing of it, so the signal is listened to here.

Python's wake-up descriptor tells of every signal at once, whoever handles it and whatever the main thread is doing.
During the first rendezvous nobody handles the signal, and a container's first process would even ignore it: there the
process ends, the Python way. Later torch's own handlers are left as they are.
"""

from __future__ import annotations

import signal
import socket
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_CODE = 128 + signal.SIGTERM
"""What a shell reports for a process that SIGTERM ended."""

_ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
"""Those that torch's agent ends on, by default."""


class Listener:
    """Calls *leaving* as soon as a signal arrives that ends the agent. Does nothing outside the main thread."""

    def __init__(self, leaving: Callable[[], None]) -> None:
        self._leaving = leaving
        self._ends: tuple[socket.socket, socket.socket] | None = None

    def listen(self) -> None:
        """Begins to listen, and sees to it that SIGTERM ends the process where nobody else does."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _end)
        if self._ends is None:
            self._ends = socket.socketpair()
            self._ends[1].setblocking(False)  # noqa: FBT003 - the standard library's signature
            signal.set_wakeup_fd(self._ends[1].fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._run, args=self._ends[:1], name="elasticjob-signals", daemon=True).start()

    def close(self) -> None:
        """Stops listening."""
        if self._ends is not None and threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(-1)
            self._ends[1].close()

    def _run(self, end: socket.socket) -> None:
        with end:
            while numbers := end.recv(16):
                if _ENDING & set(numbers):
                    self._leaving()


def _end(_number: int, _frame: Any) -> None:
    raise SystemExit(EXIT_CODE)
