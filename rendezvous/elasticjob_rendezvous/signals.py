"""SIGTERM means that this node leaves. Torch tells a handler nothing of it, so the signal is listened to here.

During the first rendezvous nobody handles the signal, and a container's first process would even ignore it: there the
process ends. Later torch's own handler is kept and called; it is only told first that the node is leaving.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_CODE = 128 + signal.SIGTERM
"""What a shell reports for a process that SIGTERM ended."""


class Sigterm:
    """Calls *leaving* as soon as SIGTERM arrives, whoever handles it. Does nothing outside the main thread."""

    def __init__(self, leaving: Callable[[], None]) -> None:
        self._leaving = leaving
        self._next: Any = signal.SIG_DFL

    def listen(self) -> None:
        """Puts itself before the present handler; torch installs its own anew whenever it starts workers."""
        if threading.current_thread() is not threading.main_thread():
            return
        present = signal.getsignal(signal.SIGTERM)
        if present != self._on_signal and present is not signal.SIG_IGN:
            self._next = present
            signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, number: int, frame: Any) -> None:
        self._leaving()
        if callable(self._next):
            self._next(number, frame)
        else:
            raise SystemExit(EXIT_CODE)
