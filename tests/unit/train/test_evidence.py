"""What a worker leaves behind: its stacks when it is asked, its traceback when it fails."""

from __future__ import annotations

import faulthandler
import importlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from torch.distributed.elastic.multiprocessing import errors

from elasticjob_rendezvous import train

if TYPE_CHECKING:
    import pathlib

    import pytest

SCRIPT = """
import os, sys, time, types
# Not as the package is imported: that loads torch, which takes seconds.
train = sys.modules["elasticjob_rendezvous.train"] = types.ModuleType("elasticjob_rendezvous.train")
train.__path__ = ["rendezvous/elasticjob_rendezvous/train"]
from elasticjob_rendezvous.train import evidence
evidence.install()

def hangs_here(file):
    print("ready", flush=True)
    while not os.path.exists(file):
        time.sleep(0.01)

hangs_here(sys.argv[1])
raise ValueError("no such shard")
"""


def test_a_worker_writes_its_stacks_when_asked_and_its_traceback_when_it_fails(tmp_path: pathlib.Path) -> None:
    error_file, go = tmp_path / "error.json", tmp_path / "go"
    paths = {"ELASTICJOB_TRAIN_DIR": str(tmp_path), "TORCHELASTIC_ERROR_FILE": str(error_file)}
    command = [sys.executable, "-c", SCRIPT, str(go)]
    env = {**os.environ, **paths, "PYTHONPATH": "rendezvous"}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        assert (tmp_path / f"stacks.{worker.pid}").exists()
        worker.send_signal(signal.SIGUSR2)
        assert worker.stderr is not None
        stacks = [worker.stderr.readline() for _ in range(2)]
        go.touch()
        _, rest = worker.communicate()

    assert "most recent call first" in stacks[0]
    assert "hangs_here" in stacks[1]
    assert worker.returncode == 1
    assert "ValueError: no such shard" in rest
    found = errors.ProcessFailure(local_rank=0, pid=worker.pid, exitcode=1, error_file=str(error_file))
    message: Any = found.message
    assert message["message"] == "ValueError: no such shard"
    assert "in <module>" in message["extraInfo"]["py_callstack"]
    assert found.timestamp > 0


def test_importing_the_training_side_is_enough(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELASTICJOB_TRAIN_DIR", str(tmp_path))
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    try:
        importlib.reload(train)
    finally:
        faulthandler.unregister(signal.SIGUSR2)

    assert [path.name for path in tmp_path.iterdir()] == [f"stacks.{os.getpid()}"]
