"""The trainer image's torchrun as a container's first process, with a torch that is none."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TORCHRUN = pathlib.Path(__file__).parents[2] / "images/trainer/torchrun"
SLOW = "import time; print('importing', flush=True); time.sleep(60)"
CLOSED = """
from torch.distributed.elastic.rendezvous import RendezvousClosedError
def main():
    raise RendezvousClosedError("the job has failed (round 3): TooManyFailures: 1 failure")
"""
CHILD_FAILED = """
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
def main():
    raise ChildFailedError("train.py FAILED, exitcode 1")
"""


def pretended(root: pathlib.Path, run: str) -> dict[str, str]:
    """The environment with a torch whose torchrun is *run*."""
    texts = {
        "distributed/run.py": run,
        "distributed/elastic/rendezvous.py": "class RendezvousClosedError(Exception): ...",
        "distributed/elastic/multiprocessing/errors.py": "class ChildFailedError(Exception): ...",
    }
    for folder in (".", "distributed", "distributed/elastic", "distributed/elastic/multiprocessing"):
        texts[f"{folder}/__init__.py"] = ""
    for path, text in texts.items():
        file = root / "torch" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return {**os.environ, "PYTHONPATH": str(root)}


@pytest.fixture
def container(tmp_path: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    """It runs and imports torch."""
    first = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, str(TORCHRUN)]
    with subprocess.Popen(first, env=pretended(tmp_path, SLOW), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        yield process
        process.kill()


def test_a_pod_that_is_deleted_while_torch_is_imported_ends_at_once(container: subprocess.Popen[str]) -> None:
    [first] = pathlib.Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split()

    os.kill(int(first), signal.SIGTERM)

    assert container.wait(50) == 128 + signal.SIGTERM


def test_the_log_of_a_job_that_was_closed_ends_with_the_agents_word_and_no_traceback(tmp_path: pathlib.Path) -> None:
    env = pretended(tmp_path, CLOSED)

    done = subprocess.run([sys.executable, TORCHRUN], env=env, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_a_backend_that_closes_without_a_word_does_not_end_a_pod_without_one(tmp_path: pathlib.Path) -> None:
    env = pretended(tmp_path, CLOSED.replace('("the job has failed (round 3): TooManyFailures: 1 failure")', ""))

    done = subprocess.run([sys.executable, TORCHRUN], env=env, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (1, "the rendezvous was closed\n")


def test_of_a_worker_that_failed_the_log_ends_with_torchs_report_alone(tmp_path: pathlib.Path) -> None:
    env = pretended(tmp_path, CHILD_FAILED)

    done = subprocess.run([sys.executable, TORCHRUN], env=env, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (1, "train.py FAILED, exitcode 1\n")
