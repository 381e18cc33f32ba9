"""What a person sees while something takes more than a moment: one line per step, with its duration.

Lines go to standard error, so that a command's answer (a path, a list) on standard output stays clean.
"""

import contextlib
import sys
import time
from collections.abc import Iterator


def say(text: str) -> None:
    """Print one line at once, however the output is buffered."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(text: str) -> Iterator[None]:
    """Announce a step, and tell how long it took when it is done; a failure tells itself."""
    say(f"  … {text}")
    began = time.monotonic()
    yield
    say(f"  ✓ {text}: {time.monotonic() - began:.1f} s")
