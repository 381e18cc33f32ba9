"""Jobs share the accelerators of cluster nodes on a real API server, with the real scheduler and the chart's rights."""

import asyncio
import contextlib
import json
import re
import shlex
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cluster import LocalCluster
from elasticjob_operator.kube import client as clients
from support import operator_nodes as nodes
from support.operator_cluster import ROOT, Operator, until
from support.operator_job import Job
from support.operator_simulation import Simulation


@contextlib.asynccontextmanager
async def jobs_of(admin: clients.Client, namespace: str, *names: str) -> AsyncIterator[list[Job]]:
    """Jobs whose pods the real scheduler binds."""
    simulations = [Simulation(admin, namespace, name) for name in names]
    for simulation in simulations:
        simulation.start_pods = False
    tasks = [asyncio.create_task(simulation.run()) for simulation in simulations]
    try:
        yield [Job(admin, simulation) for simulation in simulations]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@pytest.fixture
async def place(admin: clients.Client) -> AsyncIterator[str]:
    """A cluster node with four pretended GPUs; its name."""
    name = f"gpus-{uuid.uuid4().hex[:8]}"
    async with nodes.node(admin, name, 4):
        yield name


async def events_of(admin: clients.Client, job: Job) -> list[str]:
    found = await admin.list("Event", job.namespace)
    return [f"{e['reason']}: {e['note']}" for e in found if e["regarding"]["name"] == job.simulation.job]


async def _told(admin: clients.Client, job: Job, beginning: str) -> bool:
    return any(line.startswith(beginning) for line in await events_of(admin, job))


async def allocated(job: Job, count: int) -> dict[str, Any]:
    async def there() -> dict[str, Any] | None:
        given = (await job.status()).get("allocation")
        return given if given and given["nodes"] == count else None

    return dict(await until(there))


async def told_by_the_page(cluster: LocalCluster, namespace: str, name: str) -> list[str]:
    """What the commands of docs/autoscaling.md answer of a job."""
    page = (ROOT / "docs/autoscaling.md").read_text().replace("NAME", name)
    commands = re.findall(r"^\$ kubectl (.*)$", page, re.MULTILINE)
    return [await asyncio.to_thread(cluster.kubectl, "-n", namespace, *shlex.split(one)) for one in commands]


async def test_jobs_share_what_there_is_and_take_what_comes_free(
    control_plane: LocalCluster, admin: clients.Client, namespace: str, operator: Operator, place: str
) -> None:
    operator.start()
    template = nodes.template(nodeSelector={"test": place})
    async with jobs_of(admin, namespace, "a", "b") as (a, b):
        await a.apply(maxNodes=4, template=template)
        assert (await a.trains(4))["allocation"]["message"] == "starts with 4 of at most 4 nodes"

        await b.apply(minNodes=2, maxNodes=2, template=template)
        shrunk, started = await a.trains(2), await b.trains(2)

        assert shrunk["allocation"]["reason"] == "Shrunk"
        assert shrunk["allocation"]["message"].endswith(f"accelerators to {namespace}/b (2)")
        assert (shrunk["resizes"], started["resizes"], started["round"]) == (1, 0, 1)
        assert (shrunk["failures"], shrunk["disruptions"], started["disruptions"]) == (0, 0, 0)

        await admin.request("DELETE", clients.path("ElasticJob", namespace, "b"))
        grown = await a.trains(4)

    assert grown["resizes"] == 2
    for beginning in ("Shrunk: 4 → 2: ", "Grown: 2 → 4: +"):
        await until(lambda told=beginning: _told(admin, a, told))  # type: ignore[misc]
    listed, allocation, events = await told_by_the_page(control_plane, namespace, "a")
    assert "a" in listed.split()
    assert json.loads(allocation)["nodes"] == 4
    assert "2 → 4: +" in events
    condition = next(c for c in grown["conditions"] if c["type"] == "Allocated")
    assert (condition["status"], condition["reason"]) == ("True", "Grown")
    assert "Forbidden" not in operator.text


async def test_a_minimum_above_the_cluster_is_told_and_the_job_starts_when_there_is_room(
    admin: clients.Client, namespace: str, operator: Operator, place: str
) -> None:
    operator.start()
    template = nodes.template(2, nodeSelector={"kubernetes.io/os": place})
    async with jobs_of(admin, namespace, "a") as (a,):
        await a.apply(minNodes=2, maxNodes=3, template=template)

        waits = await allocated(a, 0)
        assert (waits["reason"], (await a.reaches("Suspended"))["reason"]) == ("NoCapacity", "NoCapacity")
        async with nodes.node(admin, f"{place}-new", 5, **{"kubernetes.io/os": place}):
            assert (await a.trains(2))["allocation"]["reason"] == "Started"


async def test_a_persons_size_stands_and_the_autoscalers_comes_back_when_it_is_taken_away(
    admin: clients.Client, namespace: str, operator: Operator, place: str
) -> None:
    operator.start()
    async with jobs_of(admin, namespace, "a") as (a,):
        await a.apply(nodes=1, maxNodes=4, template=nodes.template(nodeSelector={"test": place}))
        assert (await a.trains(1))["allocation"]["reason"] == "Pinned"

        await a.edit(nodes=None)

        assert (await a.trains(4))["allocation"]["reason"] == "Grown"


async def test_a_new_leader_goes_on_from_what_is_in_the_api(
    admin: clients.Client, namespace: str, operator: Operator, place: str
) -> None:
    operator.start()
    async with jobs_of(admin, namespace, "a", "b") as (a, b):
        template = nodes.template(nodeSelector={"test": place})
        await a.apply(maxNodes=4, template=template)
        await b.apply(minNodes=1, maxNodes=4, template=template)
        await until(lambda: _shared(a, b))
        before = [(await job.status()) for job in (a, b)]

        assert operator.stop() == 0
        operator.start()
        await until(lambda: _logged(operator, "working as", 2))
        await asyncio.sleep(4)  # that nothing changes shows in time alone

        after = [(await job.status()) for job in (a, b)]
    assert [s["allocation"] for s in after] == [s["allocation"] for s in before]
    assert [(s["round"], s["resizes"]) for s in after] == [(s["round"], s["resizes"]) for s in before]


async def _shared(*jobs: Job) -> bool:
    statuses = [await job.status() for job in jobs]
    return all(s.get("state") == "Running" for s in statuses) and sum(s["nodes"] for s in statuses) == 4


async def _logged(operator: Operator, text: str, times: int) -> bool:
    return operator.text.count(text) >= times


async def test_a_dry_run_shows_and_does_nothing(
    admin: clients.Client, namespace: str, operator: Operator, place: str
) -> None:
    operator.flags = ("--autoscaler=dry-run",)
    operator.start()
    async with jobs_of(admin, namespace, "a") as (a,):
        await a.apply(minNodes=2, maxNodes=5, template=nodes.template(nodeSelector={"test": place}))

        async def shown() -> Any:
            return (await a.status()).get("allocation")

        given = await until(shown)
        assert given["dryRun"] is True
        assert given["nodes"] == 4
        assert (await a.status())["wantedNodes"] == 5

    async def told() -> bool:
        return any("dry run, nothing is done: " in line for line in await events_of(admin, a))

    await until(told)
