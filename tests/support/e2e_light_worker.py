"""A worker without torch, for jobs of which only the sizes matter: what it trains in a step is set by its job's size.

    e2e_light_worker.py FOLDER SECONDS SPEEDUP

A step takes SECONDS however many there are, and n workers train n**SPEEDUP times as much in it as one: what the job
reports of its throughput is chosen here, not by the machine. How far it is is kept in FOLDER, which all of the job's
workers share, so that the next round goes on from there; a file `full-speed` in it ends the job. Says of the group what
torchrun says.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time

IMAGES = 64
"""Trained in a step by one worker alone."""


def main() -> None:
    folder, train = pathlib.Path(sys.argv[1]), pathlib.Path(os.environ["ELASTICJOB_TRAIN_DIR"])
    pause, more = float(sys.argv[2]), int(IMAGES * int(os.environ["WORLD_SIZE"]) ** float(sys.argv[3]))
    number = json.loads((train / "round.json").read_text())["number"]
    kept = folder / "progress"
    step, samples = map(int, kept.read_text().split()) if kept.exists() else (0, 0)
    while not (folder / "full-speed").exists():
        time.sleep(pause)
        if os.environ["RANK"] == "0":
            step, samples = step + 1, samples + more
            replace(kept, f"{step} {samples}")
            told = {"round": number, "step": step, "samples": samples, "loss": 1 / step}
            replace(train / "progress.json", json.dumps(told | answer(train / "notice.json")))


def answer(notice: pathlib.Path) -> dict[str, str]:
    """What is there is a checkpoint already."""
    try:
        return {"checkpointed": json.loads(notice.read_text())["id"]}
    except FileNotFoundError:
        return {}


def replace(path: pathlib.Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


if __name__ == "__main__":
    main()
