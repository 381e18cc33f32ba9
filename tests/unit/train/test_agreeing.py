"""All ranks get one answer, rank 0's. With real processes: tests/integration/test_digits_example.py."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch.distributed as dist

from elasticjob_rendezvous import train
from elasticjob_rendezvous.train import agreeing, channel

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    import torch


@pytest.fixture
def join(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make this process a rank of a group whose rank 0 sends *says*; what rank 0 itself sends is checked."""

    def joined(*, rank: int, says: int, notice: bool) -> None:
        def broadcast(tensor: torch.Tensor, src: int) -> None:
            assert src == 0
            if rank == 0:
                assert tensor.item() == says
            tensor.fill_(says)

        monkeypatch.setenv(channel.TRAIN_DIR, str(tmp_path))
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setattr(dist, "is_initialized", lambda: True)
        monkeypatch.setattr(dist, "get_rank", lambda: rank)
        monkeypatch.setattr(dist, "broadcast", broadcast)
        monkeypatch.setattr(dist, "get_backend_config", lambda: "cpu:gloo")
        channel._channel.cache_clear()
        if notice:
            (tmp_path / "notice.json").write_text(json.dumps({"id": "n1", "graceSeconds": 30}))

    return joined


def test_rank_0_tells_what_its_agent_says(join: Callable[..., None]) -> None:
    join(rank=0, says=30, notice=True)
    assert train.agree_on_checkpoint() == train.Notice(id="n1", grace_seconds=30)


def test_rank_0_tells_that_there_is_no_notice(join: Callable[..., None]) -> None:
    join(rank=0, says=-1, notice=False)
    assert train.agree_on_checkpoint() is None


def test_others_believe_rank_0_that_there_is_one(join: Callable[..., None]) -> None:
    join(rank=1, says=30, notice=False)
    assert train.agree_on_checkpoint() == train.Notice(id="", grace_seconds=30)


def test_others_believe_rank_0_that_there_is_none(join: Callable[..., None]) -> None:
    join(rank=1, says=-1, notice=True)
    assert train.agree_on_checkpoint() is None


def test_a_notice_without_grace_is_a_notice(join: Callable[..., None]) -> None:
    join(rank=1, says=0, notice=False)
    assert train.agree_on_checkpoint() == train.Notice(id="", grace_seconds=0)


@pytest.mark.parametrize(
    ("backend", "device"),
    [
        ("gloo", "cpu"),
        ("cpu:gloo", "cpu"),
        ("cpu:gloo,cuda:gloo", "cpu"),
        ("cuda:gloo,cpu:gloo", "cpu"),
        ("cuda:gloo", "cuda"),
    ],
)
def test_the_device_is_one_that_the_group_has_a_backend_for(backend: str, device: str) -> None:
    store = dist.HashStore()  # type: ignore[attr-defined]  # it is there, but not in the list of exports
    dist.init_process_group(backend, store=store, rank=0, world_size=1)
    try:
        assert agreeing._own_device() == device
    finally:
        dist.destroy_process_group()


def test_a_group_without_a_backend_for_the_cpu_agrees_on_its_accelerator(
    join: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    join(rank=1, says=30, notice=False)
    monkeypatch.setattr(dist, "get_backend_config", lambda: "meta:nccl")  # a device of torch's that needs no hardware
    with pytest.raises(RuntimeError, match="meta tensors"):
        train.agree_on_checkpoint()
    assert train.agree_on_checkpoint("cpu") == train.Notice(id="", grace_seconds=30)
