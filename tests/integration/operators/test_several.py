"""More than one operator, and none that has anything to do."""

import asyncio
import pathlib
from typing import Any

import pytest

from cluster import LocalCluster
from elasticjob_operator.api import names
from elasticjob_operator.kube import client as clients
from elasticjob_operator.kube import electing
from support.operator_cluster import SYSTEM, Operator, kubeconfig_of, until
from support.operator_job import Job
from support.operator_simulation import Simulation

LOOKS = 3
"""How often the operator is made to look at a job that needs nothing."""

KINDS = ("ElasticJob", "Pod", "ConfigMap", "Lease", "Role", "RoleBinding", "ServiceAccount", "Event")


@pytest.fixture
def second(control_plane: LocalCluster, tmp_path: pathlib.Path) -> Operator:
    """Another operator, not started yet."""
    access = kubeconfig_of(control_plane, tmp_path / "second", account="elasticjob", namespace=SYSTEM)
    return Operator(access, tmp_path / "second.log")


async def versions(admin: clients.Client, namespace: str) -> dict[str, Any]:
    """The version of everything in a namespace."""
    found = {kind: await admin.list(kind, namespace) for kind in KINDS}
    return {f"{kind} {i['metadata']['name']}": i["metadata"]["resourceVersion"] for kind in found for i in found[kind]}


async def holder(admin: clients.Client) -> str:
    """Who holds the election's Lease."""
    found = await admin.get("Lease", SYSTEM, electing.NAME)
    return str(found["spec"]["holderIdentity"]) if found else ""


async def test_nothing_is_written_when_nothing_happens(
    admin: clients.Client, simulation: Simulation, operator: Operator
) -> None:
    async def rested() -> dict[str, Any] | None:
        first = await versions(admin, simulation.namespace)
        await asyncio.sleep(0.5)
        whole = {"ConfigMap kube-root-ca.crt", "ServiceAccount default"} <= first.keys()  # what each namespace is given
        return first if whole and await versions(admin, simulation.namespace) == first else None

    operator.start()
    job = Job(admin, simulation)
    await job.apply(nodes=2)
    await job.trains(2)
    before = await until(rested)

    for n in range(LOOKS):
        meta = {"name": f"stranger-{n}", "namespace": simulation.namespace, "labels": names.labels(simulation.job)}
        await admin.create("ConfigMap", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        await asyncio.sleep(1)  # that nothing is written shows in time alone

    after = await versions(admin, simulation.namespace)
    assert {name: version for name, version in after.items() if "stranger" not in name} == before


async def test_two_operators_at_once_do_nothing_twice(
    admin: clients.Client, simulation: Simulation, control_plane: LocalCluster, tmp_path: pathlib.Path
) -> None:
    access = kubeconfig_of(control_plane, tmp_path / "kubeconfig", account="elasticjob", namespace=SYSTEM)
    flags = ("--leader-election=false", f"--watch-namespaces={simulation.namespace}")
    both = [Operator(access, tmp_path / f"operator-{n}.log", *flags) for n in range(2)]
    for one in both:
        one.start()
    job = Job(admin, simulation)
    try:
        await job.apply(nodes=2)
        await job.trains(2)
        await job.scale(4)
        grown = await job.trains(4)
        await simulation.remove("digits-2-0")
        await job.comes_to("disruptions", 1)
        await job.trains(4)
        await job.scale(1)
        status = await job.trains(1)
    finally:
        codes = [one.stop() for one in both]

    assert grown["round"] == 2
    assert (status["disruptions"], status["failures"], status["failedPods"]) == (1, 0, 0)
    assert codes == [0, 0]
    assert not any("Traceback" in one.text for one in both)


async def test_the_one_that_waited_takes_over(
    admin: clients.Client, simulation: Simulation, operator: Operator, second: Operator
) -> None:
    operator.start()
    job = Job(admin, simulation)
    await job.apply(nodes=1)
    await job.trains(1)
    second.start()

    async def waits() -> bool:
        return "waiting: " in second.text

    await until(waits)
    first = await holder(admin)
    try:
        await job.scale(2)  # so that there is something to do
        assert operator.stop() == 0
        assert await holder(admin) != first, "released, not left to expire"

        status = await job.trains(2)
    finally:
        second.stop()

    assert status["round"] == 2, second.text
