"""Programs forked from a process that has imported what they need: there in no time, and as killable as any.

torch takes seconds to import, the operator one; a test of many processes would do nothing else. Whatever runs here is
the real thing: a process of its own, its code in the main thread, its end by whatever signal, and at the latest that of
the process that asked for it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from multiprocessing import forkserver
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

_CONTEXT = multiprocessing.get_context("forkserver")
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""A process that forks has no threads."""

_PR_SET_PDEATHSIG = 1
"""From ``linux/prctl.h``: the signal that a process gets when its parent has ended."""

_starting = threading.Lock()
_modules: list[str] = []


def preload(*modules: str) -> None:
    """Have these imported before anything is forked. To be called when a test's modules are imported: what is asked for
    after the first fork is imported by each fork for itself.
    """
    _modules.extend(modules)
    _CONTEXT.set_forkserver_preload(_modules)


class Fork:
    """A running process, with the manners of ``subprocess.Popen``."""

    def __init__(self, target: Callable[..., None], *args: Any, env: dict[str, str], log: pathlib.Path) -> None:
        log.touch()
        self._process = _CONTEXT.Process(target=_main, args=(target, args, env, str(log)), daemon=True)
        with _starting:
            before = {name: os.environ.get(name) for name in _ENVIRONMENT}
            os.environ.update(_ENVIRONMENT)
            try:
                self._process.start()
            finally:
                for name, value in before.items():
                    os.environ.pop(name) if value is None else os.environ.update({name: value})
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        """The exit code, once there is one: minus the signal's number where one ended it."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("forked", timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _end_with_parent() -> None:
    """The parent is the server that forks, which ends when nobody holds its pipe any more: neither who asked for this
    process, however that one's end came, nor we.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.close(forkserver._forkserver._forkserver_alive_fd)  # type: ignore[attr-defined]  # it is no part of its interface


def _main(target: Callable[..., None], args: tuple[Any, ...], env: dict[str, str], log: str) -> None:
    """Runs *target* as a program of its own would: environment, output, what is registered for its exit."""
    _end_with_parent()
    os.environ.clear()
    os.environ.update(env)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(out, number)
    try:
        target(*args)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()
