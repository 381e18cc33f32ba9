"""The operator killed before and after each single write of each scene: `python -m bench.kills [SCENE ...]`.

A real control plane, the operator as a process with the chart's rights, simulated pods and agents. An undisturbed play
of each scene counts its writes; then a play for each of them ends the operator just before the write reaches the API
server, and one just after. All must come to what the undisturbed one came to, and the audit log must be sound. Writes
that no play reached are told: some scenes need fewer when it is quick. One line a scene in `build/bench/kills.jsonl`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Literal

from cluster import LocalCluster
from elasticjob_operator.kube import errors
from support import audit, audit_invariants, checkout, operator_cluster
from support.operator_killing import SCENES, End, Lane, lane

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OUT = pathlib.Path(__file__).parents[2] / "build/bench/kills.jsonl"
LANES = 8
"""Plays at the same time."""

MORE = 2
"""Plays beyond the undisturbed one's last write: another order of events may need more."""

Side = Literal["before", "after"]
SIDES: tuple[Side, ...] = ("before", "after")

Point = tuple[str, int, Side]
"""Scene, number of the write within it, and whether it had reached the API server."""


class Kills:
    """All of them, shared by the lanes."""

    def __init__(self, scenes: Sequence[str]) -> None:
        self._scenes = iter(scenes)
        self._points: Iterator[Point] = iter(())
        self._done = 0
        self.clean: dict[str, End] = {}
        self.reached: list[Point] = []
        self.failed: dict[Point, str] = {}

    async def run(self, lanes: Sequence[Lane]) -> None:
        """First the undisturbed ones."""
        await asyncio.gather(*(self._undisturbed(one) for one in lanes))
        points = [(s, n + 1, w) for s, end in self.clean.items() for n in range(end.writes + MORE) for w in SIDES]
        print(f"{len(points)} plays:", {name: end.writes for name, end in self.clean.items()}, flush=True)
        self._points = iter(points)
        await asyncio.gather(*(self._killed(one, len(points)) for one in lanes))

    async def _undisturbed(self, one: Lane) -> None:
        for scene in self._scenes:
            self.clean[scene] = await one.play(SCENES[scene])

    async def _killed(self, one: Lane, many: int) -> None:
        for point in self._points:
            await self._play(one, point)
            self._done += 1
            if self._done % 25 == 0:
                print(f"{self._done} of {many}, {len(self.failed)} failed", flush=True)

    async def _play(self, one: Lane, point: Point) -> None:
        scene, number, side = point
        try:
            end = await one.play(SCENES[scene], like=self.clean[scene].picture, **{side: number.__eq__})
        except (AssertionError, errors.ApiError) as error:  # the other points are played all the same
            self.failed[point] = str(error)
            print(f"FAILED {point}: {error}", flush=True)
        else:
            self.reached += [point] * end.kills

    def lines(self) -> Iterator[str]:
        """A line of JSON for each scene."""
        for scene, end in self.clean.items():
            count = {side: sum(p[0] == scene and p[2] == side for p in self.reached) for side in SIDES}
            failed = sum(p[0] == scene for p in self.failed)
            yield json.dumps({"figure": "kills", "scene": scene, "writes": end.writes, **count, "failed": failed})


async def killed(cluster: LocalCluster, folder: pathlib.Path, scenes: Sequence[str]) -> Kills:
    """Play them all."""
    kills = Kills(scenes)
    admin = await operator_cluster.connect(cluster.kubeconfig)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(admin.close)
        lanes = [await stack.enter_async_context(lane(cluster, admin, folder, f"lane-{i}")) for i in range(LANES)]
        await kills.run(lanes)
    return kills


def main() -> int:
    """Run; 1 where a play failed or the audit log is not sound."""
    began = time.monotonic()
    cluster = LocalCluster.start(name=checkout.cluster_name("kills"), control_plane_only=True)
    try:
        operator_cluster.install(cluster)
        with tempfile.TemporaryDirectory() as folder:
            kills = asyncio.run(killed(cluster, pathlib.Path(folder), sys.argv[1:] or list(SCENES)))
        unsound = audit_invariants.violations(audit.entries(cluster.audit_log))
    finally:
        cluster.down()
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("\n".join(kills.lines()) + "\n")
    print(*kills.lines(), *unsound, sep="\n")
    took = time.monotonic() - began
    print(f"{len(kills.reached)} kills, {len(kills.failed)} failed, {took:.0f} s: {sorted(kills.failed)}")
    return int(bool(kills.failed or unsound))


if __name__ == "__main__":
    sys.exit(main())
