"""Processes that need torch, forked from one that has loaded it already: there in no time, and as killable as any.

torch takes seconds to import; a test of many nodes would do nothing else. Whatever runs here is the real thing: a
process of its own, its code in the main thread, its end by whatever signal.
"""

from __future__ import annotations

import atexit
import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

_CONTEXT = multiprocessing.get_context("forkserver")
_LOADED = [
    "torch.distributed.run",
    "torch.distributed.elastic.agent.server.api",
    "kubernetes",
    "elasticjob_rendezvous.handler",
]
_CONTEXT.set_forkserver_preload(_LOADED)
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""A process that forks has no threads."""

_starting = threading.Lock()


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

    def terminate(self) -> None:
        self._process.terminate()


def load(*modules: str) -> None:
    """Has *modules* loaded besides, before the first process is forked."""
    _LOADED.extend(modules)


def _main(target: Callable[..., None], args: tuple[Any, ...], env: dict[str, str], log: str) -> None:
    """Runs *target* as a program of its own would: environment, output, what is registered for its exit."""
    os.environ.clear()
    os.environ.update(env)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(out, number)
    ask_no_name_server()
    try:
        target(*args)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()


def ask_no_name_server() -> None:
    """From now on this process knows names from files alone, as far as its C library lets itself be told.

    A TCPStore asks for the name of everybody who connects, and answers nobody while it waits for a name server.
    """
    configure = getattr(ctypes.CDLL(None), "__nss_configure_lookup", None)
    if configure is not None:
        configure(b"hosts", b"files")


def torchrun(*arguments: str) -> None:
    """What the command ``torchrun`` does."""
    from torch.distributed import run  # noqa: PLC0415 - loaded already, in the process that was forked

    run.main(list(arguments))
