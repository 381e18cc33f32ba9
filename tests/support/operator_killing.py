"""An operator that is killed around a write of its own, and the next one that finishes what it was at.

A scene is played by a lane: an operator that goes through a proxy of its own, in a namespace of the scene's own. What
it comes to must be what the same scene came to undisturbed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import uuid
from typing import TYPE_CHECKING

from elasticjob_operator.kube import client as clients
from support import operator_cluster
from support.operator_cluster import SYSTEM, Operator, kubeconfig_of, until
from support.operator_job import Job
from support.operator_outcome import Picture, at_rest, picture
from support.operator_proxy import Proxy
from support.operator_simulation import Simulation, acting

if TYPE_CHECKING:
    import pathlib
    from collections.abc import AsyncIterator, Awaitable, Callable

    from cluster import LocalCluster

REST = 0.7
"""Seconds in which an operator that has anything to do writes: it looks again within a tenth of that."""

PACE = 0.1
"""Seconds between two looks of a simulated kubelet, of which there are several here."""

KINDS = ("ConfigMap", "Role", "RoleBinding", "ServiceAccount", "NetworkPolicy", "PodDisruptionBudget", "Service")
"""What a job has beside its pods and Leases."""


def never(count: int) -> bool:
    """No write is fatal."""
    return False


@dataclasses.dataclass(frozen=True)
class Scene:
    """Something that an operator does with a job; ``None`` nodes: there is no job."""

    before: int | None
    after: int | None
    act: Callable[[Play], Awaitable[None]]
    counts: tuple[str, int] | None = None
    """A counter of the status, and what it then says."""


@dataclasses.dataclass(frozen=True)
class End:
    """What a scene came to."""

    picture: Picture
    writes: int
    kills: int


class Play:
    """One scene on a lane, once."""

    def __init__(self, lane: Lane, scene: Scene, namespace: str) -> None:
        self.lane = lane
        self.scene = scene
        self.job: Job = Job(lane.admin, Simulation(lane.admin, namespace))
        self.job.simulation.pace = PACE
        self.seen: Picture = {}
        self._awake = True
        self._kills = 0

    async def run(self, *, before: Callable[[int], bool], after: Callable[[int], bool], like: Picture | None) -> End:
        """Play it; killed at the writes, by number within the scene, that *before* or *after* call fatal.

        Raises :class:`AssertionError` where it does not come to what is *like* it.
        """
        way, operator = self.lane.way, self.lane.operator
        operator.flags = ("--leader-election=false", f"--watch-namespaces={self.job.namespace}")
        async with acting(self.job.simulation), self._nursed():
            await self._prepare()
            way.writes.clear()
            way.before, way.after = self._killing(before), self._killing(after)
            try:
                await self.scene.act(self)
                await until(lambda: self._ended(like))
            except AssertionError as error:
                raise AssertionError(f"{self.seen} is not {like}") from error
            finally:
                way.before = way.after = never
            return End(self.seen, len(way.writes), self._kills)

    async def delete(self) -> None:
        """``kubectl delete ej``."""
        await self.lane.admin.request("DELETE", clients.path("ElasticJob", self.job.namespace, "digits"))

    async def unseen(self, act: Callable[[], Awaitable[None]]) -> None:
        """Something happens while there is no operator."""
        self._awake = False
        self.lane.operator.kill()
        await act()
        self._awake = True

    async def _prepare(self) -> None:
        nodes = self.scene.before
        if nodes is None:
            return
        await self.job.apply(nodes=nodes or 2, suspend=not nodes)
        await until(lambda: self._rests(lambda found: at_rest(found, nodes)))

    def _killing(self, fatal: Callable[[int], bool]) -> Callable[[int], bool]:
        def killed(count: int) -> bool:
            if not fatal(count):
                return False
            self._kills += 1
            self.lane.operator.kill()
            return True

        return killed

    @contextlib.asynccontextmanager
    async def _nursed(self) -> AsyncIterator[None]:
        """Whenever the operator is dead, another one is started."""

        async def nurse() -> None:
            while True:
                if self._awake and not self.lane.operator.running:
                    self.lane.operator.start()
                await asyncio.sleep(0.05)

        task = asyncio.create_task(nurse())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            self.lane.operator.kill()

    async def _ended(self, like: Picture | None) -> bool:
        """At rest as the scene says or, where another one was, as that."""
        return await self._rests(lambda found: found == like if like is not None else self._over(found))

    def _over(self, found: Picture) -> bool:
        nodes, counts = self.scene.after, self.scene.counts
        if nodes is None:
            return not any(found.values())
        live = {
            **found,
            "pods": [(slot, phase) for slot, phase in found["pods"] if phase != "Failed"],
        }  # kept as a record
        return at_rest(live, nodes) and (counts is None or found["status"].get(counts[0]) == counts[1])

    async def _rests(self, there: Callable[[Picture], bool]) -> bool:
        """Whether that is so, and stays so while nobody writes."""
        self.seen = await self._look()
        if not there(self.seen):
            return False
        writes = len(self.lane.way.writes)
        await asyncio.sleep(REST)
        seen, self.seen = self.seen, await self._look()
        return self.lane.operator.running and seen == self.seen and writes == len(self.lane.way.writes)

    async def _look(self) -> Picture:
        found = dict(await picture(self.lane.admin, self.job.simulation))
        if await self.lane.admin.get("ElasticJob", self.job.namespace, "digits") is None:
            found["status"] = {}
        return found | {"others": [item async for item in self._others()]}

    async def _others(self) -> AsyncIterator[str]:
        """The job's other objects, but for what the API server adds to each."""
        for kind in KINDS:
            for item in await self.lane.admin.list(kind, self.job.namespace):
                if item["metadata"]["name"].startswith("digits"):
                    kept = {k: v for k, v in item.items() if k not in ("metadata", "data", "status")}
                    text = json.dumps({"name": item["metadata"]["name"], **kept}, sort_keys=True)
                    yield f"{kind} {text}".replace(self.job.namespace, "<namespace>")


class Lane:
    """An operator and its way to the API server, for one play after the other."""

    def __init__(self, admin: clients.Client, operator: Operator, way: Proxy) -> None:
        self.admin = admin
        self.operator = operator
        self.way = way

    async def play(
        self,
        scene: Scene,
        *,
        before: Callable[[int], bool] = never,
        after: Callable[[int], bool] = never,
        like: Picture | None = None,
    ) -> End:
        """One play, in a namespace that is deleted afterwards."""
        async with operator_cluster.namespace(self.admin, f"killed-{uuid.uuid4().hex[:8]}") as namespace:
            return await Play(self, scene, namespace).run(before=before, after=after, like=like)


@contextlib.asynccontextmanager
async def lane(cluster: LocalCluster, admin: clients.Client, folder: pathlib.Path, name: str) -> AsyncIterator[Lane]:
    """A lane; its operator may not have failed at anything but its being killed."""
    way = Proxy.to(cluster.kubeconfig)
    async with way.serving() as url:
        access = kubeconfig_of(cluster, folder / name, account="elasticjob", namespace=SYSTEM, server=url)
        operator = Operator(access, folder / f"{name}.log")
        yield Lane(admin, operator, way)
        assert "Traceback" not in operator.text, operator.text[-5000:]


async def _lost(play: Play) -> None:
    await play.job.simulation.remove("digits-1-0")


SCENES: dict[str, Scene] = {
    "create": Scene(None, 3, lambda play: play.job.apply(nodes=3)),
    "scale up": Scene(1, 3, lambda play: play.job.scale(3)),
    "scale down": Scene(3, 1, lambda play: play.job.scale(1)),
    "pod lost": Scene(3, 3, _lost, ("disruptions", 1)),
    "pod lost unseen": Scene(
        3, 3, lambda play: play.unseen(lambda: play.job.simulation.delete("digits-1-0")), ("disruptions", 1)
    ),
    "pod fails": Scene(2, 2, lambda play: play.job.simulation.crash("digits-1-0", 3, "no luck"), ("failedPods", 1)),
    "workers fail": Scene(2, 2, lambda play: play.job.simulation.workers_fail("digits-1-0"), ("failures", 1)),
    "suspend": Scene(2, 0, lambda play: play.job.edit(suspend=True)),
    "resume": Scene(0, 2, lambda play: play.job.edit(suspend=False)),
    "delete": Scene(2, None, lambda play: play.delete()),
}
