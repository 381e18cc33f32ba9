"""What a worker leaves behind when it fails or hangs: its traceback for torch's error file, its stacks in the log.

Installed by importing :mod:`elasticjob_rendezvous.train`, in workers of an ElasticJob alone. Nothing here may make a
worker fail that would not have.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import pathlib
import signal
import sys
import time
import traceback
from typing import TYPE_CHECKING

from elasticjob_rendezvous.train.channel import TRAIN_DIR

if TYPE_CHECKING:
    from types import TracebackType

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""Torch's: where a worker writes why it failed, and its agent reads it."""

DUMP_SIGNAL = signal.SIGUSR2
"""At which a worker writes the stacks of all its threads to its standard error: its agent sends it when it hangs."""

STACKS = "stacks."
"""By an empty file of this name, with its PID, a worker tells its agent that it listens to the signal."""


def install() -> None:
    """Listen to the signal, and hand uncaught exceptions to torch as ``record`` does. Without an agent: nothing."""
    directory = os.environ.get(TRAIN_DIR)
    if not directory:
        return
    with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):  # no standard error, no directory
        faulthandler.register(DUMP_SIGNAL, file=sys.stderr, all_threads=True)
        (pathlib.Path(directory) / f"{STACKS}{os.getpid()}").touch()
    if os.environ.get(ERROR_FILE):
        before = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            with contextlib.suppress(Exception):
                _record(error)
            before(kind, error, trace)

        sys.excepthook = hook


def _record(error: BaseException) -> None:
    """Into the error file, in torch's own form, unless ``record`` has written it."""
    path = pathlib.Path(os.environ[ERROR_FILE])
    if path.exists():
        return
    callstack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    extra = {"py_callstack": callstack, "timestamp": str(int(time.time()))}
    message = {"message": f"{type(error).__name__}: {error}", "extraInfo": extra}
    path.write_text(json.dumps({"message": message}), "utf-8")
