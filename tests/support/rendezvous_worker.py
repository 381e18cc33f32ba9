"""The training script of the torchrun tests: looped all-reduces, told by files when to crash, to end, to report.

``argv[1]`` is the folder of those files. Prints one line when a round's first collective has gone through.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import time

import torch
import torch.distributed as dist


def stay(order: pathlib.Path) -> None:
    """For as long as the order stands."""
    while order.exists():
        time.sleep(0.05)


def stop(order: pathlib.Path) -> None:
    """Uses the grace that a node has."""
    stay(order)
    sys.exit(1)


def main() -> None:
    orders = pathlib.Path(sys.argv[1])
    slot = os.environ.get("TEST_NODE", "")
    slow = orders / f"slow-{slot}"
    if slow.exists():
        signal.signal(signal.SIGTERM, lambda *_: stop(slow))
    train = pathlib.Path(os.environ["ELASTICJOB_TRAIN_DIR"])
    number = json.loads((train / "round.json").read_text())["number"]
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    step = 0
    while True:
        flag = torch.tensor([float((orders / "finish").exists()), 1.0])
        dist.all_reduce(flag)
        step += 1
        if step == 1:
            print(f"FIRST node={slot} round={number} rank={rank} world={world} sum={flag[1].item():g}", flush=True)
        if rank == 0:
            report = {"round": number, "step": step, "samples": step * world, "loss": 1 / step}
            (train / ".p").write_text(json.dumps(report))
            (train / ".p").replace(train / "progress.json")
        if flag[0].item() > 0:
            break
        crash = orders / f"crash-{slot}"
        if crash.exists():
            crash.unlink()
            print("told to crash", file=sys.stderr, flush=True)
            os._exit(3)  # at an orderly exit the open process group may abort, whose code would be another
        time.sleep(0.05)
    stay(orders / f"late-{slot}")
    print(f"DONE node={slot} round={number}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
