"""Whatever is asked of a job, in whatever order and phase: it ends as if only the last wish had ever been uttered."""

import random
from typing import Any

import pytest

from support.operator_world import World


def a_wish(chance: random.Random) -> dict[str, Any]:
    """Fields of a spec as a person or an autoscaler might set them."""
    least = chance.randint(1, 3)
    most = chance.randint(least, 6)
    return {
        "minNodes": least,
        "maxNodes": most,
        "nodes": chance.choice([None, chance.randint(least, most)]),
        "allowedNodes": chance.choice([{}, {}, {"step": least}, {"sizes": [1, 2, 4, most]}]),
        "suspend": chance.random() < 0.2,
    }


def outcome(world: World) -> dict[str, Any]:
    """All that must not depend on the way there."""
    counters = ("failures", "failedPods", "disruptions")
    told = {name: world.status[name] for name in ("state", "nodes", "wantedNodes", "plannedNodes", *counters)}
    held = {c["type"]: (c["status"], c["reason"]) for c in world.status["conditions"] if c["type"] != "Running"}
    return {**told, **held, "pods": len(world.pods)}


@pytest.mark.parametrize("seed", range(24))
def test_only_the_last_wish_counts(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same chances at each run
    fixed = {"resizePolicy": {"checkpointGraceSeconds": chance.choice([0, 30])}}
    world = World(warming=chance.choice([0, 2, 8]), **fixed, **a_wish(chance))
    for _ in range(chance.randint(2, 8)):
        for _ in range(chance.randint(0, 25)):
            if chance.random() < 0.5:
                world.operate(writes=chance.choice([None, None, None, 0, 1, 2]))
            else:
                world.agents(lambda names: [n for n in names if chance.random() < 0.7])
            if chance.random() < 0.05:
                world.now += chance.choice([1, 45, 400])
        world.edit(**a_wish(chance))
    world.settle()

    clean = World(**{"nodes": None, **world.fields})
    clean.settle()

    assert outcome(world) == outcome(clean)
    assert world.record is not None
    most = max((*world.record.plan, *world.record.member_slots, world.fields["maxNodes"] - 1))
    assert (sorted(world.leases), world.access.slots) == (list(range(most + 1)), most + 1)
