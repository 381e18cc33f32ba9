"""A share without samples is a batch like any other to the training script."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from elasticjob_rendezvous.train import Collate, ElasticSampler


class Pair(NamedTuple):
    image: Any
    label: Any


@pytest.mark.parametrize("rank", range(4))
def test_a_loader_takes_every_share(rank: int) -> None:
    dataset = TensorDataset(torch.randn(10, 3, 8), torch.arange(10))
    sampler = ElasticSampler(10, batch_size=4, rank=rank, world_size=4)
    batches = list(DataLoader(dataset, batch_sampler=sampler, collate_fn=Collate(dataset)))

    assert [len(labels) for _, labels in batches] == [len(share) for share in sampler]
    for images, labels in batches:
        assert images.shape == (len(labels), 3, 8)
        assert labels.dtype == torch.int64


def test_a_step_without_samples_has_gradients_of_zero() -> None:
    dataset = TensorDataset(torch.randn(1, 3), torch.tensor([1]))
    model = torch.nn.Linear(3, 2)
    images, labels = Collate(dataset)([])
    torch.nn.functional.cross_entropy(model(images), labels, reduction="sum").backward()  # type: ignore[no-untyped-call]

    assert model.weight.grad is not None
    assert not model.weight.grad.any()


@pytest.mark.parametrize(
    ("sample", "form"),
    [
        (("text", 1), [(), torch.int64]),
        ({"image": torch.ones(2), "name": "text"}, {"image": torch.float32, "name": []}),
        (Pair(torch.ones(2), 0.5), Pair(torch.float32, torch.float64)),
        ([{"a": 1}, "text"], [{"a": torch.int64}, ()]),
    ],
)
def test_an_empty_batch_has_the_form_of_a_full_one(sample: Any, form: Any) -> None:
    def form_of(batch: Any) -> Any:
        if isinstance(batch, torch.Tensor):
            assert len(batch) == 0
            return batch.dtype
        if isinstance(batch, dict):
            return {key: form_of(value) for key, value in batch.items()}
        if isinstance(batch, Pair):
            return Pair(*map(form_of, batch))
        return type(batch)(map(form_of, batch))

    assert form_of(Collate([sample])([])) == form


def test_a_share_with_samples_is_collated_as_ever() -> None:
    assert Collate([1, 2])([1, 2]).tolist() == [1, 2]
    assert Collate([], collate=sum)([1, 2]) == 3
