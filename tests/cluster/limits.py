"""A limit of this computer that clusters side by side come up against, raised until the next boot."""

import contextlib
from pathlib import Path

INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")

INSTANCES = 1024
"""A cluster of three nodes holds about 25, and the kernel's default is 128 for all that a user runs. Where they have
run out, a kubelet dies at its start with "too many open files"."""


def raise_inotify() -> None:
    """Allow so many instances as a few clusters need. Where that is not allowed, one cluster works all the same."""
    with contextlib.suppress(OSError):
        if int(INOTIFY.read_text()) < INSTANCES:
            INOTIFY.write_text(str(INSTANCES))
