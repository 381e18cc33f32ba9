"""Which tests run in one process (pytest-xdist), one after the other: those that share a cluster.

Each process that gets a test of a package makes the package's cluster for itself, so no package is spread over
processes, but for the longest, e2e, which is given two. All lanes take about as long.
"""

from __future__ import annotations

from xdist.scheduler.loadscope import LoadScopeScheduling

SECOND = (
    "test_autoscaler",
    "test_backends",
    "test_cluster_nodes",
    "test_demo_chaos",
    "test_demo_rights",
    "test_demo_story",
)
"""Files of tests/e2e that run beside the others, on a cluster of their own: half of the seconds that all take."""


def lane(nodeid: str) -> str:
    """The folder of a test, and which half of it."""
    path, _, _ = nodeid.partition("::")
    folder, _, file = path.rpartition("/")
    return f"{folder}, second half" if folder == "tests/e2e" and file.removesuffix(".py") in SECOND else folder


class Lanes(LoadScopeScheduling):  # type: ignore[misc]  # it ships no types
    """A process takes a lane, and another one when it has hardly anything left to do."""

    def _split_scope(self, nodeid: str) -> str:
        return lane(nodeid)
