"""The benchmark is alive: its smallest case, ours and torch's. What it measures is no test's business."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from support import checkout

if TYPE_CHECKING:
    from cluster import LocalCluster


def test_the_benchmark_measures_both_backends(control_plane: LocalCluster) -> None:
    command = [sys.executable, "-m", "bench.rendezvous", "--quick", "--cluster", control_plane.name]
    env = {**os.environ, "PYTHONPATH": "tests"}
    done = subprocess.run(command, cwd=checkout.ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = (checkout.ROOT / "build/bench/rendezvous-quick.jsonl").read_text().splitlines()
    found = {(line["figure"], line["backend"], line["n"]): line["value"] for line in map(json.loads, lines)}
    for backend in ("kubernetes", "c10d"):
        for figure in ("form", "form_again", "requests_per_node", "bytes_per_node"):
            assert found[figure, backend, 2] > 0
    assert "| form | 2 | s |" in done.stdout
