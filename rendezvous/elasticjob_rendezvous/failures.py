"""How this agent's workers failed, as far as torch lets a handler know.

Torch calls ``next_rendezvous`` after a failure without a word. The result of its last look at the workers is a local
variable of a caller; it is read where it is found, and its absence is no error.
"""

from __future__ import annotations

import sys
from typing import Any

from elasticjob_rendezvous.round.lease import Failure

MAX_MESSAGE = 512
"""Characters of a message that are kept: a line or two, not a traceback."""

_DEEPEST = 20
"""Callers that are looked at; torch's agent is five up."""


def found(number: int) -> Failure | None:
    """The first failure of the workers of round *number*, or None where the callers know of none."""
    frame: Any = sys._getframe(1)  # noqa: SLF001 - documented as implementation detail, present in CPython
    for _ in range(_DEEPEST):
        if frame is None:
            return None
        failures = getattr(frame.f_locals.get("run_result"), "failures", None)
        if isinstance(failures, dict) and failures:
            return _described(number, min(failures.values(), key=lambda f: getattr(f, "timestamp", 0)))
        frame = frame.f_back
    return None


def _described(number: int, failure: Any) -> Failure:
    message = getattr(failure, "message", "")
    if isinstance(message, dict):
        message = message.get("message", "")
    code = getattr(failure, "exitcode", 1)
    text = " ".join(str(message).split())[:MAX_MESSAGE]
    return Failure(round=number, exit_code=code if isinstance(code, int) else 1, message=text)
