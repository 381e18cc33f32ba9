"""Every field of the spec changed while the job trains, and changed back: nothing of it is left."""

from typing import Any

import pytest

from support.operator_mutations import BASE, mutations, reverted
from support.operator_outcome import outcome
from support.operator_world import World

MUTATIONS = dict(mutations())
HISTORY = ("resizes", "lastResize", "observedGeneration")
"""What tells of the way, and may."""


def left(world: World) -> dict[str, Any]:
    """The outcome, without what tells of the way."""
    found = outcome(world)
    return {**found, "status": {name: value for name, value in found["status"].items() if name not in HISTORY}}


def test_the_fields_are_those_of_the_crd() -> None:
    assert {"minNodes", "suspend", "allowedNodes.step", "failurePolicy.exitCodes", "template"} <= set(MUTATIONS)
    assert "nprocPerNode" not in MUTATIONS
    assert len(MUTATIONS) >= 20


@pytest.mark.parametrize("turns", [7, None], ids=["soon", "when it has settled"])
@pytest.mark.parametrize("field", MUTATIONS)
def test_a_field_that_is_changed_and_changed_back_leaves_nothing(field: str, turns: int | None) -> None:
    clean = World(**BASE)
    clean.settle()
    world = World(**BASE)
    world.settle()

    world.edit(**MUTATIONS[field])
    if turns is None:
        world.settle()
        assert world.status["state"] in ("Running", "Suspended")
    for _ in range(turns or 0):
        world.operate()
        world.agents()
    world.edit(**reverted(MUTATIONS[field]))
    world.settle()

    assert left(world) == left(clean)
