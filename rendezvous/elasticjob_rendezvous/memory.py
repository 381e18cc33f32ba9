"""Whether the kernel has killed a process of this container for want of memory, as the container's cgroup counts it.

The kubelet tells of it when the container ends. Where the kernel kills one worker and no more (version 1 of cgroups, or
the kubelet's `singleProcessOOMKill`), the container goes on.
"""

from __future__ import annotations

import contextlib
import pathlib

_COUNTERS = ("memory.events", "memory/memory.oom_control")
"""Where a line `oom_kill 3` is: version 2 and 1 of cgroups, as the kernel's documentation of each says."""


class Kills:
    """Counts them. A container that shows no counter has none."""

    def __init__(self, root: pathlib.Path = pathlib.Path("/sys/fs/cgroup")) -> None:
        self._files = [root / name for name in _COUNTERS]
        self._known = self._count()

    def more(self) -> bool:
        """Whether there were any since the last time."""
        before, self._known = self._known, self._count()
        return self._known > before

    def _count(self) -> int:
        for file in self._files:
            with contextlib.suppress(OSError, ValueError):
                lines = (line.split() for line in file.read_text().splitlines())
                return next((int(line[1]) for line in lines if line[:1] == ["oom_kill"] and len(line) > 1), 0)
        return 0
