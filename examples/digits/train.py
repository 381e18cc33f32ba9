"""Learn handwritten digits, data-parallel, on however many nodes there are at the moment.

An ordinary DistributedDataParallel script that resumes from a checkpoint on shared storage. What makes it elastic is
torchrun, which starts it anew in each round; what makes it lose nothing is ``elasticjob_rendezvous.train``. It also
keeps books: how often each image was trained in each epoch, counted by the ranks that did it and kept in the
checkpoint, so that what was done after the last checkpoint and lost is not in them.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import gzip
import io
import json
import os
import pathlib
import socket
import time
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from elasticjob_rendezvous import train

if TYPE_CHECKING:
    from collections.abc import Callable

HELD_OUT = 5
"""Every fifth image is kept from training, to measure on."""


def main() -> None:
    options = parse_options()
    torch.set_num_threads(1)  # small matrices: more threads only wait for each other
    torch.manual_seed(options.seed)
    dist.init_process_group("gloo")
    run = Run(options)
    run.resume()
    for epoch in range(run.sampler.epoch, options.epochs):
        run.train_epoch(epoch)
    if dist.get_rank() == 0:
        run.write_result()
    dist.destroy_process_group()


class Options(argparse.Namespace):
    """What the command line says."""

    data: pathlib.Path
    shared: pathlib.Path
    epochs: int
    batch_size: int
    learning_rate: float
    seed: int
    checkpoint_every: int
    seconds_per_step: float


def parse_options() -> Options:
    parser = argparse.ArgumentParser(description=__doc__)
    here = pathlib.Path(__file__).parent
    parser.add_argument("--data", type=pathlib.Path, default=here / "digits.csv.gz", help="the images")
    parser.add_argument(
        "--shared", type=pathlib.Path, default=pathlib.Path("/shared"), help="folder that all nodes see"
    )
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=64, help="images per step, over all nodes together")
    parser.add_argument("--learning-rate", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-every", type=int, default=10, help="steps")
    parser.add_argument(
        "--seconds-per-step",
        type=float,
        default=0.0,
        help="slow down to this, as a larger network would be; a file named full-speed in the shared folder ends it",
    )
    return parser.parse_args(namespace=Options())


@dataclasses.dataclass(frozen=True)
class Digits:
    """Images, scaled to 0 … 1, and the digits that they show."""

    images: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def read(cls, path: pathlib.Path) -> tuple[Digits, Digits]:
        """The images to train on and the held-out ones."""
        with gzip.open(path, "rt", encoding="ascii", newline="") as lines:
            table = torch.tensor([[int(cell) for cell in row] for row in csv.reader(lines)])
        held_out = torch.arange(len(table)) % HELD_OUT == 0
        return cls.of(table[~held_out]), cls.of(table[held_out])

    @classmethod
    def of(cls, table: torch.Tensor) -> Digits:
        return cls(images=table[:, :-1] / 16, labels=table[:, -1])


class Run:
    """A training run: everything that a checkpoint holds, and what it takes to go on from there."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.training, self.held_out = Digits.read(options.data)
        network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        self.model = DistributedDataParallel(network)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=options.learning_rate)
        self.sampler = train.ElasticSampler(len(self.training.labels), batch_size=options.batch_size, seed=options.seed)
        self.step = 0
        self.samples = 0
        self.loss = torch.zeros(())
        self.counts = torch.zeros(self.sampler.size, dtype=torch.int64)  # of this epoch, as of the last checkpoint
        self.counted_here = torch.zeros_like(self.counts)  # by this rank, since then
        self.epochs: list[dict[str, int]] = []

    # --- training

    def train_epoch(self, epoch: int) -> None:
        """Train what is left of *epoch*."""
        self.sampler.set_epoch(epoch)
        for share in self.sampler:
            started = time.monotonic()
            self.train_step(torch.tensor(share, dtype=torch.int64))
            self.pace(started)
            notice = train.agree_on_checkpoint()
            if notice or self.step % self.options.checkpoint_every == 0:
                self.checkpoint()
            if notice:
                train.checkpointed(notice)
        self.close_books(epoch)
        self.checkpoint()
        if dist.get_rank() == 0:
            say(f"epoch {epoch}: step {self.step}, loss {self.loss:.4f}, held-out accuracy {self.accuracy():.2%}")

    def train_step(self, share: torch.Tensor) -> None:
        """One global batch, of which *share* is this rank's part."""
        self.optimiser.zero_grad()
        answers = self.model(self.training.images[share])
        loss = cross_entropy(answers, self.training.labels[share], reduction="sum") * self.sampler.loss_scale
        loss.backward()  # type: ignore[no-untyped-call]  # torch ships no type for it
        self.optimiser.step()
        self.loss = loss.detach()
        self.counted_here[share] += 1
        self.step += 1
        self.samples += self.sampler.batch
        self.sampler.advance()
        train.report_progress(step=self.step, samples=self.samples, loss=self.loss)

    def pace(self, started: float) -> None:
        if self.options.seconds_per_step and not (self.options.shared / "full-speed").exists():
            time.sleep(max(0.0, started + self.options.seconds_per_step - time.monotonic()))

    def accuracy(self) -> float:
        """The part of the held-out images that are told right."""
        with torch.no_grad():
            answers = self.model.module(self.held_out.images).argmax(dim=1)
        return float((answers == self.held_out.labels).float().mean())

    # --- books

    def count_together(self) -> None:
        """Add up what the ranks have counted since the last checkpoint."""
        dist.all_reduce(self.counted_here)
        self.counts += self.counted_here
        self.counted_here.zero_()

    def close_books(self, epoch: int) -> None:
        """Note how often the images of *epoch* were trained, and begin to count the next one."""
        self.count_together()
        least, most = self.counts.min().item(), self.counts.max().item()
        self.epochs.append({"epoch": epoch, "samples": int(self.counts.sum()), "least": int(least), "most": int(most)})
        self.counts.zero_()
        self.sampler.set_epoch(epoch + 1)

    def write_result(self) -> None:
        result = {
            "accuracy": self.accuracy(),
            "steps": self.step,
            "samples": self.samples,
            "images": self.sampler.size,
            "epochs": self.epochs,
        }
        once = sum(books["least"] == books["most"] == 1 for books in self.epochs)
        say(
            f"held-out accuracy {self.accuracy():.2%}; {once} of {len(self.epochs)} epochs trained each image just once"
        )
        say(f"result: {json.dumps(result)}")
        write_durably(self.options.shared / "result.json", lambda path: path.write_text(json.dumps(result)))

    # --- checkpoints

    @property
    def checkpoint_path(self) -> pathlib.Path:
        return self.options.shared / "checkpoint.pt"

    def checkpoint(self) -> None:
        """Save at a step on which all ranks agree; rank 0 writes."""
        self.count_together()
        if dist.get_rank() == 0:
            write_durably(self.checkpoint_path, lambda path: torch.save(self.state_dict(), path))

    def state_dict(self) -> dict[str, object]:
        return {
            "model": self.model.module.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "sampler": self.sampler.state_dict(),
            "step": self.step,
            "samples": self.samples,
            "counts": self.counts,
            "epochs": self.epochs,
        }

    def resume(self) -> None:
        """Go on from the checkpoint, if there is one."""
        content = read_together(self.checkpoint_path)
        if content:
            self.load_state_dict(torch.load(io.BytesIO(content), weights_only=True))
        train.restored()
        if dist.get_rank() == 0:
            info = train.round_info()
            where = f"round {info.number} ({info.reason}), " if info else ""
            say(f"{where}{dist.get_world_size()} workers, from step {self.step}, epoch {self.sampler.epoch}")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.module.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.sampler.load_state_dict(state["sampler"])
        self.step, self.samples = state["step"], state["samples"]
        self.counts, self.epochs = state["counts"], state["epochs"]


def say(text: str) -> None:
    print(text, flush=True)  # at once, also into a pipe: a pod that is killed has no later


def write_durably(path: pathlib.Path, write: Callable[[pathlib.Path], object]) -> None:
    """Replace *path* as a whole, so that no crash leaves half of it, and wait until it is on storage."""
    draft = path.with_name(f"{path.name}.{socket.gethostname()}")
    write(draft)
    flush(draft)
    draft.replace(path)
    flush(path.parent)  # the new name


def flush(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_together(path: pathlib.Path) -> bytearray:
    """The file as rank 0 finds it, on every rank; empty where there is none.

    If each rank looked for itself, two could see different checkpoints: a pod that was just lost may still be finishing
    a write. A large model would agree on a file's name instead of its content.
    """
    content = bytearray(path.read_bytes() if dist.get_rank() == 0 and path.exists() else b"")
    size = torch.tensor([len(content)])
    dist.broadcast(size, src=0)
    content = content or bytearray(int(size))
    if content:
        dist.broadcast(torch.frombuffer(content, dtype=torch.uint8), src=0)
    return content


if __name__ == "__main__":
    main()
