"""How this agent's workers failed, as far as torch lets a handler know.

Torch calls ``next_rendezvous`` after a failure without a word. The result of its last look at the workers is a local
variable of a caller; it is read where it is found, and its absence is no error.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from elasticjob_rendezvous.round.lease import MAX_MESSAGE, MAX_TRACEBACK, Failure

if TYPE_CHECKING:
    from collections.abc import Callable

_ADVICE = "To enable traceback see"
"""What torch says of a worker that has left no error file: advice, and no word of what happened."""

NOTICED = 1.0
"""Seconds: torch keeps whole ones of when it noticed a failure. What is said later is others' answer to it."""

_DEEPEST = 20
"""Callers that are looked at; torch's agent is five up."""


def found(
    number: int, said: Callable[[float], str] = lambda _until: "", *, out_of_memory: bool = False
) -> Failure | None:
    """The first failure of the workers of round *number*, or None where the callers know of none.

    *said* is the end of what they have said on standard error up to a moment; it speaks for who left no error file.
    *out_of_memory*: the kernel has killed a process of theirs.
    """
    frame: Any = sys._getframe(1)  # noqa: SLF001 - documented as implementation detail, present in CPython
    for _ in range(_DEEPEST):
        if frame is None:
            return None
        failures = getattr(frame.f_locals.get("run_result"), "failures", None)
        if isinstance(failures, dict) and failures:
            first = _described(number, min(failures.values(), key=lambda f: getattr(f, "timestamp", 0)), said)
            return dataclasses.replace(first, out_of_memory=out_of_memory)
        frame = frame.f_back
    return None


def _described(number: int, failure: Any, said: Callable[[float], str]) -> Failure:
    message, traceback = getattr(failure, "message", ""), ""
    if isinstance(message, dict):
        more = message.get("extraInfo")
        traceback = str(more.get("py_callstack") or "") if isinstance(more, dict) else ""
        message = message.get("message", "")
    if str(message).startswith(_ADVICE):
        message = ""
    moment = _moment(failure)
    traceback = traceback or said(moment + NOTICED if moment else math.inf)
    message = message or traceback.rpartition("\n")[2]
    code = getattr(failure, "exitcode", 1)
    text = " ".join(str(message).split())[:MAX_MESSAGE]
    return Failure(
        round=number,
        exit_code=code if isinstance(code, int) else 1,
        message=text,
        time=moment,
        traceback=traceback[-MAX_TRACEBACK:],
    )


def _moment(failure: Any) -> float:
    """When it failed: when its error file was written, for torch itself keeps whole seconds."""
    try:
        return round(pathlib.Path(failure.error_file).stat().st_mtime, 3)
    except (OSError, AttributeError, TypeError, ValueError):
        moment = getattr(failure, "timestamp", 0)
        known = isinstance(moment, (int, float)) and math.isfinite(moment)
        return float(moment) if known else 0.0
