"""The elastic sampler: each sample once an epoch, whatever the world does in between."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_rendezvous.train import ElasticSampler


def world(size: int, *, samples: int, batch_size: int, seed: int = 0) -> list[ElasticSampler]:
    return [
        ElasticSampler(samples, batch_size=batch_size, seed=seed, rank=rank, world_size=size) for rank in range(size)
    ]


def take_step(ranks: list[ElasticSampler]) -> list[list[int]]:
    """One step of the whole world: every rank's share, then everybody advances."""
    shares = [next(iter(sampler)) for sampler in ranks]
    for sampler in ranks:
        sampler.advance()
    return shares


@given(samples=st.integers(1, 90), batch_size=st.integers(1, 40), sizes=st.lists(st.integers(1, 5), min_size=1))
def test_an_epoch_sees_each_sample_once_across_any_resizes(samples: int, batch_size: int, sizes: list[int]) -> None:
    seen: list[int] = []
    state = ElasticSampler(samples, batch_size=batch_size).state_dict()
    for size in itertools.cycle(sizes):  # another world for each step
        ranks = world(size, samples=samples, batch_size=batch_size)
        for sampler in ranks:
            sampler.load_state_dict(state)
        if not ranks[0].batch:
            break
        seen += itertools.chain(*take_step(ranks))
        state = ranks[0].state_dict()

    assert sorted(seen) == list(range(samples))


@given(samples=st.integers(1, 90), batch_size=st.integers(1, 40), size=st.integers(1, 7))
def test_ranks_take_equally_many_steps_and_nearly_equal_shares(samples: int, batch_size: int, size: int) -> None:
    steps = list(zip(*world(size, samples=samples, batch_size=batch_size), strict=True))

    for shares in steps:
        lengths = [len(share) for share in shares]
        assert max(lengths) - min(lengths) <= 1
        assert sum(lengths) <= batch_size
    assert sum(len(share) for shares in steps for share in shares) == samples


def test_a_global_batch_does_not_depend_on_the_world() -> None:
    alone, three = (
        [sorted(itertools.chain(*shares)) for shares in zip(*world(size, samples=50, batch_size=8), strict=True)]
        for size in (1, 3)
    )

    assert alone == three


def test_loss_scale_turns_the_mean_over_ranks_into_the_mean_over_the_batch() -> None:
    values = [random.Random(7).random() for _ in range(10)]  # noqa: S311 - data, not a secret
    ranks = world(3, samples=10, batch_size=10)
    scaled = [sum(values[i] for i in next(iter(sampler))) * sampler.loss_scale for sampler in ranks]

    assert sum(scaled) / 3 == pytest.approx(sum(values) / 10)


def test_a_last_batch_smaller_than_the_world_leaves_ranks_an_empty_share() -> None:
    ranks = world(4, samples=10, batch_size=8)
    take_step(ranks)
    shares = take_step(ranks)

    assert sorted(len(share) for share in shares) == [0, 0, 1, 1]
    assert len(ranks[0]) == 0


def test_iterating_ahead_does_not_move_the_place() -> None:
    sampler = ElasticSampler(10, batch_size=2)
    list(sampler)

    assert sampler.position == 0
    assert len(sampler) == 5


def test_another_epoch_starts_at_its_beginning_in_another_order_and_the_same_goes_on() -> None:
    sampler = ElasticSampler(20, batch_size=20)
    first = next(iter(sampler))
    sampler.advance()
    sampler.set_epoch(0)
    assert sampler.position == 20

    sampler.set_epoch(1)
    second = next(iter(sampler))
    assert sampler.position == 0
    assert first != second
    assert sorted(first) == sorted(second)


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        sampler = ElasticSampler(30, batch_size=30, seed=seed)
        sampler.set_epoch(epoch)
        return next(iter(sampler))

    assert order(1, 2) == order(1, 2)
    orders = [order(seed, epoch) for seed in range(4) for epoch in range(4)]
    assert len({tuple(o) for o in orders}) == len(orders)


def test_without_shuffling_samples_come_in_their_own_order() -> None:
    assert list(ElasticSampler(5, batch_size=2, shuffle=False)) == [[0, 1], [2, 3], [4]]


def test_a_state_of_other_data_or_another_order_is_refused() -> None:
    state = ElasticSampler(10, batch_size=2, seed=1).state_dict()

    with pytest.raises(ValueError, match="size is 10, the sampler's 11"):
        ElasticSampler(11, batch_size=2, seed=1).load_state_dict(state)
    with pytest.raises(ValueError, match="seed is 1, the sampler's 2"):
        ElasticSampler(10, batch_size=2, seed=2).load_state_dict(state)
    with pytest.raises(ValueError, match="shuffle is True, the sampler's False"):
        ElasticSampler(10, batch_size=2, seed=1, shuffle=False).load_state_dict(state)


def test_the_batch_size_may_change_with_a_resume() -> None:
    state = {**ElasticSampler(10, batch_size=4).state_dict(), "position": 4}
    sampler = ElasticSampler(10, batch_size=5)
    sampler.load_state_dict(state)

    assert [len(share) for share in sampler] == [5, 1]


def test_rank_and_world_come_from_torchruns_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    sampler = ElasticSampler(9, batch_size=3)

    assert (sampler.rank, sampler.world_size) == (2, 3)


@pytest.mark.parametrize(("size", "batch_size"), [(0, 1), (1, 0)])
def test_nothing_to_sample_is_refused(size: int, batch_size: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ElasticSampler(size, batch_size=batch_size)
