"""Waiting with a deadline, and with a name for what is waited for.

Every wait of this package goes through here, so that none is endless and each tells what did not happen.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from cluster import errors

T = TypeVar("T")


def until(
    what: str,
    condition: Callable[[], T | None],
    *,
    seconds: float,
    interval: float = 0.05,
    check: Callable[[], object] = lambda: None,
) -> T:
    """Poll until `condition` returns something true, and return that.

    `check` runs before each poll and raises when waiting has become pointless, as when the process waited for has died.
    """
    deadline = time.monotonic() + seconds
    while True:
        check()
        if found := condition():
            return found
        if time.monotonic() >= deadline:
            raise errors.ClusterError(f"waited {seconds:g} s for {what}, in vain")
        time.sleep(interval)
