"""The protocol's own functions and the operator's, in every order of steps: what must never be, and what must come.

Each small world is walked to its last state (``docs/protocol.md`` says what that covers, and how much further
``make explore`` goes). Worlds too large for that are walked at random, with more faults and more nodes.
"""

from __future__ import annotations

import random
import re

import pytest

from support import checkout
from support import rendezvous_shapes as shapes
from support.rendezvous_explorer import Explorer, wander


@pytest.mark.parametrize("name", shapes.KEPT)
def test_every_state_is_sound_and_settles_however_the_steps_come(name: str) -> None:
    report = Explorer(shapes.SHAPES[name]).walk()
    assert not report.broken, str(report)
    assert report.complete


@pytest.mark.parametrize("name", shapes.LARGE)
def test_large_worlds_stay_sound_and_settle_in_random_orders(name: str) -> None:
    for seed in range(shapes.WALKS):
        report = wander(shapes.LARGE[name], random.Random(seed))  # noqa: S311 - not cryptography
        assert not report.broken, f"seed {seed}: {report}"


def test_the_document_lists_every_world_and_which_of_them_are_walked_here() -> None:
    rows = re.findall(r"^\| (.+?)(\*?) \| [\d,]+ \|", (checkout.ROOT / "docs/protocol.md").read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == list(shapes.SHAPES)
    assert [name for name, mark in rows if mark] == list(shapes.KEPT)
