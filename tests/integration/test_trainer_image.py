"""The trainer image's torchrun as a container's first process, with a torch that takes for ever to import."""

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


@pytest.fixture
def container(tmp_path: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    """It runs and imports torch."""
    package = tmp_path / "torch/distributed"
    package.mkdir(parents=True)
    for module, text in (("../__init__", ""), ("__init__", ""), ("run", SLOW)):
        (package / f"{module}.py").write_text(text)
    first = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, str(TORCHRUN)]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(first, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        yield process
        process.kill()


def test_a_pod_that_is_deleted_while_torch_is_imported_ends_at_once(container: subprocess.Popen[str]) -> None:
    [first] = pathlib.Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split()

    os.kill(int(first), signal.SIGTERM)

    assert container.wait(10) == 128 + signal.SIGTERM
