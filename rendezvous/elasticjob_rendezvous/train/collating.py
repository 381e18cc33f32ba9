"""Batches of a :class:`~torch.utils.data.DataLoader` whose shares may be empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import default_collate

if TYPE_CHECKING:
    from collections.abc import Callable


class Collate:
    """A ``collate_fn`` for :class:`~elasticjob_rendezvous.train.ElasticSampler`, whose shares may be empty::

        loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=Collate(dataset))

    An empty share becomes a batch of the usual shape with no samples in it: its tensors have length 0, so the *sum* of
    its losses is 0 and the rank takes part in the step with gradients of zero. torch's own function has nothing to
    learn the shape from and raises. Here it is learned from sample 0 of *dataset*, which need not be a tensor's.

    *collate* makes the batch of a share that has samples; it is torch's own unless another is given.
    """

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any] = default_collate) -> None:
        self._dataset = dataset
        self._collate = collate

    def __call__(self, samples: list[Any]) -> Any:
        return self._collate(samples) if samples else _emptied(self._collate([self._dataset[0]]))


def _emptied(batch: Any) -> Any:
    """The form of *batch*, without its one sample: what is neither a tensor nor made of others is the sample's own."""
    if isinstance(batch, torch.Tensor):
        return batch[:0]
    if isinstance(batch, dict):
        return {key: _emptied(value) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(_emptied, batch))
    if isinstance(batch, (list, tuple)):
        texts = all(isinstance(value, (str, bytes)) for value in batch)  # one a sample, as torch's own function does
        return type(batch)(() if texts else map(_emptied, batch))
    return batch
