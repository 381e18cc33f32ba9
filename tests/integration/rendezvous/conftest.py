"""API servers to run the rendezvous against: the real one, and a fake one in this process that can be disturbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster import LocalCluster
from support import checkout, rendezvous_api, rendezvous_forks, rendezvous_jobs, rendezvous_nodes

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator


@pytest.fixture(scope="package")
def control_plane() -> Iterator[LocalCluster]:
    """A real etcd and API server, for all tests of this folder."""
    cluster = LocalCluster.start(name=checkout.cluster_name("rendezvous"), control_plane_only=True)
    yield cluster
    cluster.down()


@pytest.fixture(scope="session", autouse=True)
def names_from_files() -> None:
    """A name server that is slow to answer would be measured, and nothing else."""
    rendezvous_forks.ask_no_name_server()


@pytest.fixture
def fake() -> rendezvous_api.FakeApi:
    return rendezvous_api.FakeApi()


@pytest.fixture
def fake_job(fake: rendezvous_api.FakeApi, tmp_path: pathlib.Path) -> Iterator[rendezvous_jobs.Job]:
    """A job in the fake API server."""
    with rendezvous_api.serving(fake) as url:
        yield rendezvous_jobs.Job(rendezvous_api.kubeconfig(tmp_path / "kubeconfig", url))


@pytest.fixture
def job(control_plane: LocalCluster) -> rendezvous_jobs.Job:
    """A job in the real API server."""
    return rendezvous_jobs.Job(str(control_plane.kubeconfig))


@pytest.fixture(params=["fake", "real"])
def either_job(request: pytest.FixtureRequest) -> rendezvous_jobs.Job:
    """A job in the one and then in the other: what holds for both holds for the fake, too."""
    found: rendezvous_jobs.Job = request.getfixturevalue("job" if request.param == "real" else "fake_job")
    return found


@pytest.fixture
def agents(job: rendezvous_jobs.Job, tmp_path: pathlib.Path) -> Iterator[rendezvous_jobs.Agents]:
    """Agents of a job in the real API server, with gloo workers: each takes as long to start as torch to import."""
    started = rendezvous_jobs.Agents(job, tmp_path)
    yield started
    started.close()


@pytest.fixture
def light_agents(job: rendezvous_jobs.Job, tmp_path: pathlib.Path) -> Iterator[rendezvous_jobs.Agents]:
    """Agents of a job in the real API server, with workers that need no torch."""
    started = rendezvous_jobs.Agents(job, tmp_path, rendezvous_jobs.LIGHT_WORKER)
    yield started
    started.close()


@pytest.fixture
def fake_agents(fake_job: rendezvous_jobs.Job, tmp_path: pathlib.Path) -> Iterator[rendezvous_jobs.Agents]:
    """Agents of a job in the fake API server, with workers that need no torch."""
    started = rendezvous_jobs.Agents(fake_job, tmp_path, rendezvous_jobs.LIGHT_WORKER)
    yield started
    started.close()


@pytest.fixture
def nodes(fake_job: rendezvous_jobs.Job, tmp_path: pathlib.Path) -> Iterator[rendezvous_nodes.Nodes]:
    """Nodes of a job in the fake API server."""
    started = rendezvous_nodes.Nodes(fake_job, tmp_path)
    yield started
    started.close()
