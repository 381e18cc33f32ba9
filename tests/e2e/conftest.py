"""One cluster for this folder, a namespace for each test, and everything there is to see when one fails."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from cluster import LocalCluster
from cluster.images import etcd
from demo import evidence, staging
from support import audit, audit_invariants, checkout, e2e_audit, e2e_scenes

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from datetime import datetime

    from cluster.clusters import Cluster
    from demo.story import Scene

TIMEOUT = 1800
"""Seconds a test, the making of images and the cluster before the first one included."""

FAILED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(__file__.rpartition("/")[0]):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(TIMEOUT))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(scope="package")
def outages() -> list[tuple[datetime, datetime]]:
    """When there was no API server, or one that had not loaded its rights yet: from its crash to its readiness."""
    return []


@pytest.fixture(scope="package")
def cluster(outages: list[tuple[datetime, datetime]]) -> Iterator[Cluster]:
    """Three cluster nodes, the images, shared storage, the operator installed from the chart.

    In the end nothing that the product tried may have been refused, and all that was written is judged together.
    """
    cluster = staging.bring_up(checkout.cluster_name("e2e"))
    try:
        staging.install_operator(cluster, f"--set=etcd.image={etcd.NAME}")
        yield cluster
        if isinstance(cluster, LocalCluster):  # only its audit log is at hand
            assert e2e_audit.refused(cluster.audit_log, outages) == []
            assert audit_invariants.violations(audit.entries(cluster.audit_log)) == []
    finally:
        cluster.down()


@pytest.fixture
def local(cluster: Cluster) -> LocalCluster:
    """The same, for what is done to its machines."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("only the local cluster's machines can be switched off, cut off, added to")
    return cluster


@pytest.fixture
def scene(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A namespace of the test's own, watched."""
    namespace = "e2e-" + re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:50].strip("-")
    with e2e_scenes.scene(cluster, namespace) as made:
        yield made
        if request.node.stash.get(FAILED, False):
            for section in evidence.gather(
                cluster.kubectl, namespace=namespace, operator_namespace=staging.OPERATOR_NAMESPACE
            ):
                print(section)
