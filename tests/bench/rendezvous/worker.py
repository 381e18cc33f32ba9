"""The training script of the recovery benchmark: all-reduces, and a line with the time of each thing that was reached.

``argv[1]`` is the file of those lines, ``argv[2]`` one that makes the worker with the rank that it names crash.
"""

from __future__ import annotations

import sys
import time

began = time.monotonic()

import contextlib  # noqa: E402 - the time at which the interpreter was there comes first
import json  # noqa: E402
import os  # noqa: E402
import pathlib  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402


def main() -> None:
    loaded = time.monotonic()
    lines, crash = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    dist.init_process_group("gloo")
    joined = time.monotonic()
    rank, world = dist.get_rank(), dist.get_world_size()
    dist.all_reduce(torch.ones(1))
    group = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}/{world}"
    times = {"began": began, "loaded": loaded, "joined": joined, "stepped": time.monotonic()}
    told = {"node": os.environ["BENCH_NODE"], "rank": rank, "world": world, "group": group, "worker": os.getpid()}
    with lines.open("a") as file:
        file.write(json.dumps(told | times) + "\n")
    while True:
        dist.all_reduce(torch.ones(1))
        with contextlib.suppress(OSError):
            if crash.read_text() == str(rank):
                crash.unlink()
                os._exit(3)  # at once, as a fatal signal ends it
        time.sleep(0.02)


if __name__ == "__main__":
    main()
