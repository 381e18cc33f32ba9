"""What a person sees while something takes more than a moment: one line per step, with its duration.

Lines go to standard error, so that a command's answer (a path, a list) on standard output stays clean.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

TTY_SECONDS, LOG_SECONDS = 1.0, 30.0
"""Between two signs of life of a step: on a terminal the line itself counts, in a log a line now and then is enough."""

_CLEAR_LINE = "\r\x1b[2K"


def say(text: str) -> None:
    """Print one line at once, however the output is buffered."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(text: str) -> Iterator[None]:
    """Announce a step, show that it goes on, and tell how long it took when it is done; a failure tells itself."""
    tty = sys.stderr.isatty()
    began = time.monotonic()
    done = threading.Event()
    ticker = threading.Thread(target=_tick, args=(text, began, done), kwargs={"tty": tty}, daemon=True)
    if not tty:
        say(f"  … {text}")
    ticker.start()
    try:
        yield
    finally:
        done.set()
        ticker.join()
        if tty:
            print(_CLEAR_LINE, end="", file=sys.stderr, flush=True)
    say(f"  ✓ {text}: {time.monotonic() - began:.1f} s")


def _tick(text: str, began: float, done: threading.Event, *, tty: bool) -> None:
    """Count the seconds of a step until it is *done*."""
    while True:
        seconds = time.monotonic() - began
        if tty:
            print(f"{_CLEAR_LINE}  … {text}: {seconds:.0f} s", end="", file=sys.stderr, flush=True)
        elif seconds >= LOG_SECONDS:
            say(f"  … {text}: {seconds:.0f} s so far")
        if done.wait(TTY_SECONDS if tty else LOG_SECONDS):
            return
