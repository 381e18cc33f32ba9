"""A real control plane without kubelets, the chart's rights, the operator as a process, simulated pods and agents."""

import asyncio
import pathlib
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from cluster import LocalCluster
from elasticjob_operator.kube import client as clients
from support import audit, audit_invariants, checkout, operator_cluster, operator_nodes, operator_simulation


@pytest.fixture(scope="package")
def control_plane() -> Iterator[LocalCluster]:
    """A real etcd and API server with the chart installed, for all tests of this folder.

    In the end everything that was written, in whichever test, is judged together.
    """
    cluster = LocalCluster.start(name=checkout.cluster_name("operators"), control_plane_only=True)
    try:
        operator_cluster.install(cluster)
        yield cluster
        assert audit_invariants.violations(audit.entries(cluster.audit_log)) == []
    finally:
        cluster.down()


@pytest.fixture
async def admin(control_plane: LocalCluster) -> AsyncIterator[clients.Client]:
    """An administrator's client."""
    client = await operator_cluster.connect(control_plane.kubeconfig)
    yield client
    await client.close()


@pytest.fixture
async def namespace(admin: clients.Client) -> AsyncIterator[str]:
    """A namespace of the test's own."""
    async with operator_cluster.namespace(admin, f"test-{uuid.uuid4().hex[:8]}") as name:
        yield name


@pytest.fixture
def operator(control_plane: LocalCluster, tmp_path: pathlib.Path) -> Iterator[operator_cluster.Operator]:
    """The operator, not started yet."""
    access = operator_cluster.kubeconfig_of(
        control_plane, tmp_path / "kubeconfig", account="elasticjob", namespace=operator_cluster.SYSTEM
    )
    process = operator_cluster.Operator(access, tmp_path / "operator.log")
    yield process
    if process.running:
        assert process.stop() == 0, process.text
    assert "Traceback" not in process.text, process.text


@pytest.fixture
def watching(control_plane: LocalCluster, tmp_path: pathlib.Path) -> Iterator[operator_cluster.Operator]:
    """An operator that looks at cluster nodes."""
    access = operator_cluster.kubeconfig_of(
        control_plane, tmp_path / "kubeconfig", account="elasticjob", namespace=operator_cluster.SYSTEM
    )
    operator = operator_cluster.Operator(access, tmp_path / "operator.log", "--watch-cluster-nodes=true")
    operator.start()
    yield operator
    assert operator.stop() == 0, operator.text


@pytest.fixture
async def node(admin: clients.Client) -> AsyncIterator[str]:
    """A cluster node of the test's own."""
    name = f"node-{uuid.uuid4().hex[:8]}"
    async with operator_nodes.node(admin, name, 0):
        yield name


@pytest.fixture
async def simulation(admin: clients.Client, namespace: str) -> AsyncIterator[operator_simulation.Simulation]:
    """Pods that run and agents that act, though there is no node."""
    found = operator_simulation.Simulation(admin, namespace)
    task = asyncio.create_task(found.run())
    yield found
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and task.exception():
        raise AssertionError("the simulation failed") from task.exception()
