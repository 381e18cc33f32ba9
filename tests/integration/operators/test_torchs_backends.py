"""torch's own backends with the newest torch: the operator's pods as real torchruns of this machine."""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from cluster import LocalCluster
from elasticjob_operator.kube import client as clients
from support import operator_builders as build
from support.operator_cluster import Operator, kubeconfig_of
from support.operator_job import Job
from support.operator_kubelet import Kubelet

SECONDS = 180.0
"""For workers to come up: each imports torch."""


LIGHT: dict[str, Any] = {"env": [{"name": "LIGHT", "value": "1"}]}
"""What of a container makes its workers do without torch."""


def template(**container: Any) -> dict[str, Any]:
    """A template with these fields in its container."""
    return {"spec": {"containers": [{**build.TEMPLATE["spec"]["containers"][0], **container}]}}


@contextlib.asynccontextmanager
async def kubelet(
    admin: clients.Client,
    namespace: str,
    name: str,
    folder: pathlib.Path,
    token: Callable[[], pathlib.Path] | None = None,
) -> AsyncIterator[Kubelet]:
    """A job's pods, run on this machine."""
    made = Kubelet(admin, namespace, name, folder, token=token)
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])
        made.stop()
        if not task.cancelled():
            task.result()


@pytest.mark.usefixtures("control_plane")
async def test_c10d_grows_and_static_stays_and_both_train_to_the_end(
    admin: clients.Client, namespace: str, operator: Operator, tmp_path: pathlib.Path
) -> None:
    operator.start()
    async with (
        kubelet(admin, namespace, "grows", tmp_path) as grows,
        kubelet(admin, namespace, "stays", tmp_path) as stays,
    ):
        c10d, static = Job(admin, grows), Job(admin, stays)
        await static.apply(minNodes=2, maxNodes=2, rendezvous={"backend": "static"})
        conf = {"last_call_timeout": "1"}
        await c10d.apply(minNodes=2, maxNodes=3, nodes=2, rendezvous={"backend": "c10d", "conf": conf})
        await grows.trains(2)
        await stays.trains(2)
        await c10d.trains(2)
        stays.finish.touch()
        await c10d.scale(3)
        await grows.trains(3)
        await c10d.trains(3)
        grows.finish.touch()

        for job in (c10d, static):
            done = await job.reaches("Succeeded", seconds=SECONDS)
            assert (done["restarts"], done["failures"], done["disruptions"]) == (0, 0, 0)
    assert "ERROR" not in operator.text
    assert "Forbidden" not in operator.text


async def test_torch_closes_its_rendezvous_when_an_agent_fails_and_the_next_run_has_another(
    control_plane: LocalCluster, admin: clients.Client, namespace: str, operator: Operator, tmp_path: pathlib.Path
) -> None:
    def token() -> pathlib.Path:
        return kubeconfig_of(control_plane, tmp_path / "job", account="digits-worker", namespace=namespace)

    operator.start()
    async with kubelet(admin, namespace, "digits", tmp_path, token) as pods:
        job = Job(admin, pods)
        await job.apply(
            minNodes=2,
            maxNodes=2,
            rendezvous={"backend": "kubernetes-dynamic"},
            failurePolicy={"maxFailures": 1},
            template=template(env=[{"name": "FAIL_RUN", "value": "0"}]),
        )
        await pods.trains(2)
        pods.finish.touch()
        done = await job.reaches("Succeeded", seconds=SECONDS)

    assert (done["restarts"], done["failures"], done["failedPods"]) == (1, 1, 1)
    state = await admin.get("ConfigMap", namespace, "digits-dynamic")
    assert state is not None
    assert all(key.endswith(".1") for key in state["data"] if key.startswith("torch.rendezvous"))


@pytest.mark.usefixtures("control_plane")
async def test_all_start_anew_when_the_store_s_host_is_lost_or_a_static_group_s_node(
    admin: clients.Client, namespace: str, operator: Operator, tmp_path: pathlib.Path
) -> None:
    operator.start()
    async with (
        kubelet(admin, namespace, "hosted", tmp_path) as hosted,
        kubelet(admin, namespace, "fixed", tmp_path) as fixed,
    ):
        lost = {hosted: ("c10d", "hosted-0-0"), fixed: ("static", "fixed-1-0")}
        for pods, (backend, _) in lost.items():
            two = {"minNodes": 2, "maxNodes": 2, "rendezvous": {"backend": backend}}
            await Job(admin, pods).apply(**two, template=template(**LIGHT))
        for pods, (_, name) in lost.items():
            await Job(admin, pods).trains(2)
            await pods.trains(2)
            await pods.remove(name)
        for pods in lost:
            await Job(admin, pods).comes_to("restarts", 1, seconds=SECONDS)
            await Job(admin, pods).trains(2, seconds=SECONDS)
            await pods.trains(2)
            pods.finish.touch()
            done = await Job(admin, pods).reaches("Succeeded", seconds=SECONDS)
            assert (done["restarts"], done["failures"], done["disruptions"]) == (1, 0, 1)
