"""API servers to run the rendezvous against: a fake one in this process, and the real one where it can be had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support import rendezvous_api, rendezvous_jobs

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator


@pytest.fixture
def fake() -> rendezvous_api.FakeApi:
    return rendezvous_api.FakeApi()


@pytest.fixture
def job(fake: rendezvous_api.FakeApi, tmp_path: pathlib.Path) -> Iterator[rendezvous_jobs.Job]:
    with rendezvous_api.serving(fake) as url:
        yield rendezvous_jobs.Job(rendezvous_api.kubeconfig(tmp_path / "kubeconfig", url))


@pytest.fixture
def agents(job: rendezvous_jobs.Job, tmp_path: pathlib.Path) -> Iterator[rendezvous_jobs.Agents]:
    started = rendezvous_jobs.Agents(job, tmp_path)
    yield started
    started.close()
