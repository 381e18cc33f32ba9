"""How long spot cluster nodes last, from looking at them."""

from __future__ import annotations

import dataclasses
import math

from elasticjob_operator.autoscaler.seeing import lifetimes, picture
from unit.autoscaler import worlds


def after(*looks: tuple[int, str]) -> lifetimes.Lifetimes:
    """`(when, names)`, one after the other."""
    known = lifetimes.Lifetimes()
    for at, names in looks:
        known = lifetimes.observed(known, frozenset(names), at)
    return known


def test_the_time_of_all_is_shared_by_those_that_have_gone() -> None:
    assert (
        after((1000, "abc"), (1100, "abc"), (1200, "ad"), (1300, "d"), (1400, "d")).mean == (300 + 300 + 200 + 100) / 3
    )


def test_nothing_is_said_before_some_have_gone() -> None:
    assert math.isinf(after().mean)
    assert math.isinf(after((1000, "ab"), (9000, "")).mean)


def test_a_clock_that_goes_back_takes_no_time_away() -> None:
    assert after((1000, "abc"), (500, "abc"), (600, "")).mean == 100


def test_the_picture_carries_it() -> None:
    world = worlds.world(nodes=[worlds.node("n0")])

    assert math.isinf(picture.paint(world, worlds.RULES).snapshot.volatile_lifetime)
    told = dataclasses.replace(world, volatile_lifetime=600.0)
    assert picture.paint(told, worlds.RULES).snapshot.volatile_lifetime == 600
