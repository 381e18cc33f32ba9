"""A worker that knows of no backend: says how large its group is at the first step, and trains until it may finish.

In the run that ``FAIL_RUN`` names it fails instead, and at once. With ``LIGHT`` it takes torchrun at its word about the
group, which needs no torch, for tests of what agents do.
"""

from __future__ import annotations

import os
import pathlib
import sys
import time

if os.environ.get("FAIL_RUN") == os.environ["TORCHELASTIC_RUN_ID"].rpartition(".")[2]:
    sys.exit("this run was to fail")

if os.environ.get("LIGHT"):
    world = os.environ["WORLD_SIZE"]
    print(f"FIRST rank={os.environ['RANK']} world={world} sum={world}", flush=True)
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.05)
    sys.exit(0)

import torch
import torch.distributed as dist

STEPS = 5
"""At the least."""


def main() -> None:
    finish = pathlib.Path(sys.argv[1])
    dist.init_process_group("gloo")
    step = 0
    while True:
        flag = torch.tensor([float(finish.exists()), 1.0])
        dist.all_reduce(flag)
        step += 1
        if step == 1:
            print(f"FIRST rank={dist.get_rank()} world={os.environ['WORLD_SIZE']} sum={flag[1].item():g}", flush=True)
        if flag[0].item() > 0 and step >= STEPS:
            break
        time.sleep(0.05)
    print("DONE", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
