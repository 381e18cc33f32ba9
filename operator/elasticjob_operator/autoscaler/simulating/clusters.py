"""Clusters of people: `16x4` for 16 cluster nodes with 4 accelerators each, or a YAML file for all that is not alike.

The file is a list of groups of cluster nodes that are alike: `count`, `accelerators` (of each) and, if wanted, `type`
(a job runs on one type at a time), `speed` (times what the trace says; 1), `domain` (rack or zone, within
which a job's pods are kept together where they fit), `spot` (true: they hold what a job can lose, never its minimum).
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import snapshot
from elasticjob_operator.autoscaler.simulating import inputs, replaying

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDED = ("count", "accelerators")
KNOWN = (*NEEDED, "type", "speed", "domain", "spot")
MOST_NODES = 10_000
"""Cluster nodes of one group: twice what Kubernetes is built for."""
MOST_ACCELERATORS = 1024


def read(described: str, spot: str = "") -> replaying.Event:
    """The cluster of `16x4` or of a file; *spot* adds volatile cluster nodes, as `8x4`.

    Raises:
        inputs.InputError: it cannot be read as either, or has no accelerators; says where and what to do.
        OSError: the file cannot be opened.
    """
    extra = _alike("spot", spot, volatile=True) if spot else []
    if re.fullmatch(r"\d+x\d+", described):
        return replaying.Event(0.0, (*_alike("node", described), *extra))
    speeds = dict(_groups(described))
    return replaying.Event(0.0, (*speeds, *extra), {node.name: speed for node, speed in speeds.items()})


def _alike(prefix: str, text: str, *, volatile: bool = False) -> list[snapshot.ClusterNode]:
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,3})", text, re.ASCII)
    count, each = (int(found[1]), int(found[2])) if found else (0, 0)
    if not (0 < count <= MOST_NODES and each <= MOST_ACCELERATORS):
        raise inputs.InputError(
            f"{text!r} is no cluster: wanted is NODESxACCELERATORS, such as 16x4, "
            f"from 1x1 to {MOST_NODES}x{MOST_ACCELERATORS}"
        )
    return [snapshot.ClusterNode(f"{prefix}-{i:04}", each, volatile=volatile) for i in range(count)]


def _groups(described: str) -> Iterator[tuple[snapshot.ClusterNode, float]]:
    path = pathlib.Path(described)
    if not path.exists():
        raise inputs.InputError(
            f"{described!r} is no cluster: wanted is NODESxACCELERATORS, such as 16x4, or a file that is there"
        )
    part = inputs.document(path)
    if part is None or not (groups := part.items()):
        raise inputs.InputError(f"{path}: there is no cluster node in it; wanted is a list of {', '.join(KNOWN)}")
    for number, group in enumerate(groups):
        yield from _group(group, number)


def _group(group: inputs.Part, number: int) -> Iterator[tuple[snapshot.ClusterNode, float]]:
    parts = group.entries(KNOWN, NEEDED)
    speed = parts["speed"].number(0.001, 1000) if "speed" in parts else 1.0
    pattern = snapshot.ClusterNode(
        "",
        parts["accelerators"].count(1, MOST_ACCELERATORS),
        kind=parts["type"].text() if "type" in parts else "",
        domain=parts["domain"].text() if "domain" in parts else "",
        volatile="spot" in parts and parts["spot"].truth(),
    )
    for i in range(parts["count"].count(1, MOST_NODES)):
        yield dataclasses.replace(pattern, name=f"group-{number:02}-{i:04}"), speed
