"""A worker without torch, for tests of what the agents do: starts in no time, reports and ends like a training script.

The same files order it about as in ``rendezvous_worker.py``; it takes rank and world size from torchrun at their word.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import time


def stay(order: pathlib.Path) -> None:
    """For as long as the order stands."""
    while order.exists():
        time.sleep(0.05)


def stop(order: pathlib.Path) -> None:
    """Uses the grace that a node has."""
    stay(order)
    sys.exit(1)


def main() -> None:
    orders, slot = pathlib.Path(sys.argv[1]), os.environ["TEST_NODE"]
    train = pathlib.Path(os.environ["ELASTICJOB_TRAIN_DIR"])
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    number = json.loads((train / "round.json").read_text())["number"]
    slow = orders / f"slow-{slot}"
    if slow.exists():
        signal.signal(signal.SIGTERM, lambda *_: stop(slow))
    print(f"FIRST node={slot} round={number} rank={rank} world={world} sum={world}", flush=True)
    where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    print(f"MEETS at={where} agent_store={os.environ['TORCHELASTIC_USE_AGENT_STORE']}", flush=True)
    step = 0
    while not (orders / "finish").exists():
        step += 1
        if rank == 0:
            report = {"round": number, "step": step, "samples": step, "loss": 1 / step}
            (train / ".p").write_text(json.dumps(report))
            (train / ".p").replace(train / "progress.json")
        crash = orders / f"crash-{slot}"
        if crash.exists():
            crash.unlink()
            sys.exit(3)
        time.sleep(0.05)
    stay(orders / f"late-{slot}")
    print(f"DONE node={slot} round={number}", flush=True)


if __name__ == "__main__":
    main()
