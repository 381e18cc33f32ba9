"""One answer for all ranks to "is a checkpoint wanted?", so that they checkpoint at the same step."""

from __future__ import annotations

import torch
import torch.distributed as dist

from elasticjob_rendezvous.train import channel


def agree_on_checkpoint(device: torch.device | str | None = None) -> channel.Notice | None:
    """Whether a checkpoint is wanted, in global rank 0's view, the same on every rank.

    A collective: all ranks call it, at the same step. It broadcasts one number on *device*: without one on the
    CPU, or on the rank's current accelerator where the process group has no backend for the CPU, as with NCCL alone.
    Every few steps is often enough: the notice names a grace of many seconds.

    Without a process group it answers for this process alone.
    """
    notice = channel.checkpoint_wanted()
    if not dist.is_initialized():
        return notice
    mine = -1 if notice is None else notice.grace_seconds
    grace = torch.tensor([mine], dtype=torch.int64, device=_own_device() if device is None else device)
    dist.broadcast(grace, src=0)
    if dist.get_rank() == 0:
        return notice
    agreed = int(grace.item())
    return None if agreed < 0 else channel.Notice(id="", grace_seconds=agreed)


def _own_device() -> str:
    """A type of device that the default process group can broadcast from."""
    served = [part.partition(":")[0] for part in dist.get_backend_config().split(",")]  # such as cpu:gloo,cuda:nccl
    return "cpu" if "cpu" in served else served[0]
