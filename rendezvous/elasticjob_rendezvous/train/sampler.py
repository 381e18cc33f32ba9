"""The order of samples of a job whose world changes in the middle of an epoch.

The order of an epoch is a function of seed and epoch alone, and the place in it is one number, the samples that the
whole world has trained: so any later world, of any size, goes on exactly where the checkpoint stands.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Iterator


class ElasticSampler:
    """A batch sampler (``DataLoader(batch_sampler=...)``) that keeps the *global* batch at one size in every world.

    Each global batch of *batch_size* samples is cut into one share per rank. Nothing is dropped and nothing padded: the
    shares of one batch differ by at most one sample, and a rank's share is **empty** when an epoch's last batch is
    smaller than the world: ``DataLoader(..., collate_fn=Collate(dataset))`` makes an empty batch of it. Every rank
    takes the same number of steps, so ``DistributedDataParallel`` never waits for a rank that has none left. For a
    gradient that is the mean over the global batch, whatever the shares, multiply the *sum* of the losses of this
    rank's samples by :attr:`loss_scale`.

    The place advances when :meth:`advance` is called, after the optimiser's step, and not by iterating: a loader that
    reads ahead would count samples that nobody has trained yet::

        for epoch in range(sampler.epoch, epochs):
            sampler.set_epoch(epoch)             # in a resumed epoch, changes nothing
            for images, labels in loader:
                loss = cross_entropy(model(images), labels, reduction="sum") * sampler.loss_scale
                ...
                sampler.advance()

    Invariant: between two ``set_epoch`` the positions of one lineage of checkpoints cover 0 … size - 1, each once.
    """

    def __init__(
        self,
        size: int,
        *,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        if size < 1 or batch_size < 1:
            raise ValueError(f"size and batch_size are at least 1, not {size} and {batch_size}")
        self.size = size
        self.batch_size = batch_size
        self.seed = seed
        self.shuffle = shuffle
        own_rank, own_world_size = _place_in_world()
        self.rank = own_rank if rank is None else rank
        self.world_size = own_world_size if world_size is None else world_size
        self.epoch = 0
        self.position = 0

    def __iter__(self) -> Iterator[list[int]]:
        """The shares of this rank, from the place on to the end of the epoch."""
        order = self._order()
        for start in range(self.position, self.size, self.batch_size):
            batch = min(self.batch_size, self.size - start)
            low, high = (start + batch * part // self.world_size for part in (self.rank, self.rank + 1))
            yield order[low:high].tolist()

    def __len__(self) -> int:
        """Steps that are left in the epoch."""
        return len(range(self.position, self.size, self.batch_size))

    @property
    def batch(self) -> int:
        """Samples in the global batch at the place, over all ranks; 0 at the end of an epoch."""
        return min(self.batch_size, self.size - self.position)

    @property
    def loss_scale(self) -> float:
        """What makes a sum over a share, averaged over ranks as DDP does, the mean over the global batch."""
        return self.world_size / self.batch

    def advance(self) -> None:
        """The global batch at the place is trained."""
        self.position += self.batch

    def set_epoch(self, epoch: int) -> None:
        """Begin *epoch*; in the epoch that is under way already (after a resume), go on with it."""
        if epoch != self.epoch:
            self.epoch, self.position = epoch, 0

    def state_dict(self) -> dict[str, Any]:
        order = {"size": self.size, "seed": self.seed, "shuffle": self.shuffle}
        return {**order, "epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where *state* stands.

        Raises:
            ValueError: it belongs to other data or another order, where its place would repeat and drop samples.
        """
        for name in ("size", "seed", "shuffle"):
            if state[name] != getattr(self, name):
                raise ValueError(f"the state's {name} is {state[name]}, the sampler's {getattr(self, name)}")
        self.epoch, self.position = state["epoch"], state["position"]

    def _order(self) -> torch.Tensor:
        if not self.shuffle:
            return torch.arange(self.size)
        # Not seed + epoch, which would give seed 1's first epoch the order of seed 0's second; and 32 bits, because
        # torch's CPU generator looks at no more of a seed.
        mixed = zlib.crc32(f"{self.seed}/{self.epoch}".encode())
        generator = torch.Generator().manual_seed(mixed)
        return torch.randperm(self.size, generator=generator)


def _place_in_world() -> tuple[int, int]:
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
