"""Whether the watches are alive. kopf can lose one and go on looking healthy: then this process must end.

Two signs: kopf's task of every watch is there, and the watch of Leases has brought the election's own Lease, which is
renewed every few seconds. What both miss, the relist finds: it compares what it lists with what the watch has told.
"""

import asyncio
import logging

from elasticjob_operator.kube import electing
from elasticjob_operator.kube.noticing import Notice

WATCHES = ("elasticjobs", "pods", "configmaps", "leases")
CLUSTER_NODES = "nodes"
"""Watched where the installation has the right to."""

SILENCE_SECONDS = 180.0
"""So long the Lease watch may bring nothing: twice what kopf takes to notice a dead stream and to connect again."""

START_SECONDS = 120.0
"""So long the watches may take to begin: kopf's own retries last 54 s."""

CHECK_SECONDS = 10.0

logger = logging.getLogger(__name__)


class Watchdog:
    """Looks at the watches."""

    def __init__(self, notice: Notice, elector: electing.Elector | None, kinds: tuple[str, ...] = WATCHES) -> None:
        self._notice = notice
        self._kinds = kinds
        self._elector = elector
        self._started: float | None = None

    def trouble(self) -> str:
        """What is wrong with the watches; nothing while this operator only waits for its turn."""
        if self._started is None:
            return ""
        age = asyncio.get_running_loop().time() - self._started
        if age < START_SECONDS:
            return ""
        lost = self.missing()
        if lost:
            return f"not watching {', '.join(lost)}"
        if self._elector is not None and min(self._notice.quiet("Lease"), age) > SILENCE_SECONDS:
            return f"the watch of Leases has brought nothing for {SILENCE_SECONDS:.0f} s"
        return ""

    def missing(self) -> tuple[str, ...]:
        """Kinds that no task of kopf's watches."""
        return missing(self._kinds)

    async def watch(self) -> None:
        """Returns when the watches are dead."""
        self._started = asyncio.get_running_loop().time()
        while not self.trouble():  # noqa: ASYNC110 - time itself is waited for
            await asyncio.sleep(CHECK_SECONDS)
        logger.critical("blind: %s", self.trouble())


def missing(kinds: tuple[str, ...] = WATCHES) -> tuple[str, ...]:
    """Kinds that no task of kopf's watches. It names them ``watcher for <plural>.<version>.<group>@<namespace>``."""
    tasks = {task.get_name() for task in asyncio.all_tasks()}
    return tuple(kind for kind in kinds if not any(name.startswith(f"watcher for {kind}.") for name in tasks))
