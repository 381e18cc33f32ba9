"""Stock torchrun processes with any backend, told all they need by their environment, as a pod's is."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import time
from typing import TYPE_CHECKING

from support import rendezvous_forks as forks
from support.rendezvous_jobs import Agent

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = pathlib.Path(__file__).parents[2]
WORKER = pathlib.Path(__file__).with_name("plain_worker.py")
PATIENCE = 180.0
"""Seconds for anything that should come to pass: torch alone takes ten to start on a busy machine."""

GRACE = 30.0
"""Seconds that a pod has to end, as Kubernetes gives by default."""


def first_steps(log: str) -> list[tuple[int, int, int]]:
    """Rank, size of the group, and how many took part in its first step, for each group that a worker has been in."""
    found = re.findall(r"FIRST rank=(\d+) world=(\d+) sum=(\d+)", log)
    return [(int(rank), int(world), int(total)) for rank, world, total in found]


class Torchrun:
    """One agent with its workers, which end when the file *finish* is there."""

    def __init__(self, log: pathlib.Path, finish: pathlib.Path, env: Mapping[str, str]) -> None:
        self.log = log
        settings = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "ELASTICJOB_", "TORCH"))}
        settings |= {"PYTHONPATH": str(ROOT / "rendezvous"), "OMP_NUM_THREADS": "1", **env}
        self.process = forks.Fork(forks.torchrun, str(WORKER), str(finish), env=settings, log=log)

    def worlds(self) -> list[int]:
        """Sizes of the groups whose first step went through."""
        return [world for _, world, total in first_steps(self.log.read_text(errors="replace")) if world == total]

    def trains(self, world: int) -> None:
        """Wait for the first step of a group of *world*."""
        end = time.monotonic() + PATIENCE
        while world not in self.worlds():
            assert self.process.poll() is None, self.log.read_text(errors="replace")
            assert time.monotonic() < end, f"no group of {world} within {PATIENCE} s: {self.log.read_text()}"
            time.sleep(0.05)

    def wait(self) -> int:
        """Its exit code."""
        return self.process.wait(PATIENCE)

    def stop(self) -> None:
        """End it, if it still runs, with its workers; whoever ignores that is killed, as by a kubelet."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(GRACE)
            except subprocess.TimeoutExpired:
                Agent(self.process, self.log).kill()
