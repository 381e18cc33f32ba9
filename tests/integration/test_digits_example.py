"""The digits example under plain torchrun on this machine: real processes, gloo over loopback, no cluster.

What only a cluster can show (rounds, resizes by the operator) is in tests/e2e.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "digits"
STEPS_PER_EPOCH = 23  # 1,437 images in batches of 64; the last has 29
PATIENCE = 120.0  # seconds for a few processes to import torch on a busy machine


@pytest.fixture
def shared(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


def torchrun(shared: pathlib.Path, *options: str, workers: int, **environment: str) -> subprocess.Popen[bytes]:
    """Start the example. In a session of its own, so that the whole tree can be killed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
    return subprocess.Popen(
        [*command, str(EXAMPLE / "train.py"), f"--shared={shared}", *options],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        start_new_session=True,
    )


def result(shared: pathlib.Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shared / "result.json").read_text())
    return found


def each_image_once(epochs: int) -> list[dict[str, int]]:
    return [{"epoch": epoch, "samples": 1437, "least": 1, "most": 1} for epoch in range(epochs)]


def wait_for(path: pathlib.Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert process.poll() is None, "torchrun ended"
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.02)


def test_a_run_killed_in_mid_epoch_and_resumed_in_a_smaller_world_trains_each_image_once_an_epoch(
    shared: pathlib.Path,
) -> None:
    first = torchrun(shared, "--epochs=2", "--checkpoint-every=3", "--seconds-per-step=0.2", workers=3)
    wait_for(shared / "checkpoint.pt", first)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert not (shared / "result.json").exists()

    assert torchrun(shared, "--epochs=2", workers=1).wait(PATIENCE) == 0
    assert result(shared)["epochs"] == each_image_once(2)
    assert result(shared)["steps"] == 2 * STEPS_PER_EPOCH
    assert result(shared)["samples"] == 2 * 1437


def test_a_notice_is_answered_progress_is_reported_and_it_learns_what_the_demo_promises_in_no_time(
    shared: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    channel = tmp_path / "channel"
    channel.mkdir()
    (channel / "round.json").write_text('{"number": 5, "nodes": 1, "reason": "Resized"}')
    (channel / "notice.json").write_text('{"id": "n1", "graceSeconds": 30}')
    running = torchrun(shared, "--epochs=8", "--checkpoint-every=1000", workers=2, ELASTICJOB_TRAIN_DIR=str(channel))
    wait_for(shared / "checkpoint.pt", running)
    assert running.wait(PATIENCE) == 0

    progress = json.loads((channel / "progress.json").read_text())
    assert progress["checkpointed"] == "n1"
    assert progress["round"] == 5
    assert 1 <= progress["step"] <= 8 * STEPS_PER_EPOCH
    assert progress["loss"] > 0
    assert result(shared)["accuracy"] >= 0.95
    assert result(shared)["epochs"] == each_image_once(8)
