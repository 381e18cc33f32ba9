"""The operator killed with no warning, just before and just after its writes: what it was at, the next one finishes."""

import asyncio
import pathlib
from collections.abc import AsyncIterator

import pytest

from cluster import LocalCluster
from elasticjob_operator.kube import client as clients
from support.operator_cluster import SYSTEM, Operator, kubeconfig_of, until
from support.operator_job import Job
from support.operator_proxy import Proxy
from support.operator_simulation import Simulation


@pytest.fixture
async def proxy(control_plane: LocalCluster) -> AsyncIterator[tuple[Proxy, str]]:
    """A way to the API server, and its URL."""
    way = Proxy.to(control_plane.kubeconfig)
    async with way.serving() as url:
        yield way, url


@pytest.fixture
def fragile(control_plane: LocalCluster, proxy: tuple[Proxy, str], tmp_path: pathlib.Path, namespace: str) -> Operator:
    """An operator that goes through the proxy, and keeps this test's namespace only."""
    access = kubeconfig_of(control_plane, tmp_path / "kube", account="elasticjob", namespace=SYSTEM, server=proxy[1])
    flags = ("--leader-election=false", f"--watch-namespaces={namespace}")
    return Operator(access, tmp_path / "operator.log", *flags)


SCENES = {"start": (1, 3), "grow": (1, 4), "shrink": (3, 1), "lose": (3, 3), "lose unseen": (3, 3), "rest": (2, 2)}


@pytest.mark.parametrize("scene", SCENES)
async def test_killed_around_every_third_write(
    scene: str, admin: clients.Client, simulation: Simulation, fragile: Operator, proxy: tuple[Proxy, str]
) -> None:
    first, last = SCENES[scene]
    way, _ = proxy
    job = Job(admin, simulation)
    kills, awake = 0, asyncio.Event()
    awake.set()

    def fatal(count: int) -> bool:
        nonlocal kills
        if count % 3 or kills >= 8:
            return False
        kills += 1
        fragile.kill()
        return True

    async def revive() -> None:
        while True:
            if not fragile.running and awake.is_set():
                fragile.start()
            await asyncio.sleep(0.1)

    nurse = asyncio.create_task(revive())
    try:
        if scene != "start":
            await job.apply(nodes=first)
            await job.trains(first)
        way.before, way.after = (fatal, way.after) if scene in ("start", "shrink") else (way.before, fatal)
        if scene == "lose unseen":
            awake.clear()
            fragile.kill()
            await simulation.delete("digits-1-0")
            awake.set()
        await _acts(scene, job, last)
        status = await job.trains(last)
        await until(lambda: _only(simulation, last))
    finally:
        nurse.cancel()
        fragile.kill()

    assert kills >= 1
    assert (status["failures"], status["disruptions"]) == (0, int(scene.startswith("lose")))


async def _acts(scene: str, job: Job, last: int) -> None:
    """What the operator is killed at."""
    if scene == "start":
        await job.apply(nodes=last)
    elif scene == "rest":
        await job.edit(suspend=True)
        await job.reaches("Suspended")
        await job.edit(suspend=False)
    elif scene in ("grow", "shrink"):
        await job.scale(last)
    else:
        if scene == "lose":
            await job.simulation.remove("digits-1-0")
        await job.comes_to("disruptions", 1)


async def _only(simulation: Simulation, nodes: int) -> bool:
    """Whether there is a running pod in each slot, and no other."""
    pods = await simulation.pods()
    slots = {pod["metadata"]["labels"]["elasticjob.dev/slot"] for pod in pods}
    return len(slots) == nodes == len([pod for pod in pods if pod["status"]["phase"] == "Running"])
