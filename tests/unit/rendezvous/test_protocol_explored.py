"""The protocol's own functions, driven through random orders of events and faults: what must never, and what must come.

Each walk goes wrong at random for a while; then faults end, and the world must settle. ``WALKS`` bounds the seconds.
"""

from __future__ import annotations

import random

import pytest

from support.rendezvous_invariants import BrokenError, settled
from support.rendezvous_world import Shape, World

WALKS = 60
FAULTY, FAIR = 120, 1500
"""Steps with faults, and without: a settled world takes some fifty."""

SHAPES = {
    "two nodes": Shape(2, 1, 2, frozenset({0, 1})),
    "two nodes, both needed": Shape(2, 2, 2, frozenset({0, 1})),
    "two of three slots": Shape(3, 1, 3, frozenset({0, 1}), faults=4),
    "three nodes, two needed": Shape(3, 2, 3, frozenset({0, 1, 2}), faults=4),
    "standalone": Shape(3, 1, 3, planned=False, kinds=("crash", "cut", "lost", "suspect", "fail", "finish", "zombie")),
    "standalone, two of three needed": Shape(
        3, 2, 2, planned=False, kinds=("crash", "lost", "suspect", "fail", "finish")
    ),
}


def walk(shape: Shape, seed: int) -> World:
    """One world, from its start until it has settled."""
    chance = random.Random(seed)  # noqa: S311 - not cryptography
    world = World(shape)
    try:
        calm, news = chance.randrange(60), chance.choice((0.1, 0.3, 1.0))
        for at in range(calm + chance.randrange(FAULTY)):
            world.step(chance, fair=at < calm, news=news)
        for _ in range(FAIR):
            if settled(world) or not world.step(chance, fair=True):
                break
    except (BrokenError, ValueError) as error:
        raise AssertionError(f"seed {seed}: {error}\n  " + "\n  ".join(world.log)) from error
    return world


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_invariants_hold_and_every_world_settles(shape: Shape) -> None:
    for seed in range(WALKS):
        world = walk(shape, seed)
        assert settled(world), f"seed {seed} is stuck:\n  " + "\n  ".join([*world.log[-60:], str(world.record)])
