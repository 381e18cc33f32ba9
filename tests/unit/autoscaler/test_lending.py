"""A node is lent where nothing is free, so that something is learned: between whom, how rarely, what comes of it."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from elasticjob_operator.api import allocation
from elasticjob_operator.autoscaler import curves, deciding, learning, settings, snapshot
from elasticjob_operator.autoscaler.seeing import carrying, measuring, picture
from elasticjob_operator.autoscaler.simulating import jobs, learned, policies, replaying
from unit.autoscaler import worlds
from unit.autoscaler.cases import decide, job, nodes, sizes

KNOWN: dict[str, Any] = {"curves": {"": curves.unmeasured(8)}, "stood": 20_000.0}


def two(**of_a: Any) -> tuple[snapshot.Job, snapshot.Job]:
    """`a` and `b` with four nodes each and measured at that alone, on a full cluster; *of_a*: what differs in `a`."""
    plain = {"on": {"a0": 4}, "measured": frozenset({4}), **KNOWN}
    return job("a", **plain | of_a), job("b", **plain | {"on": {"a1": 4}})


def test_of_two_jobs_known_at_one_size_each_one_tries_a_larger_one_at_the_others_expense() -> None:
    grants = decide(nodes(2), *two())

    assert sizes(grants) == {"a": 5, "b": 3}
    assert grants["a"].message == "4 → 5: tries this size for the first time, 1 node lent by b"
    assert grants["b"].message == "4 → 3: lent to a, which tries 5 for the first time"


@pytest.mark.parametrize(
    "of_a",
    [
        {"measured": frozenset()},
        {"measured": frozenset({2})},
        {"stood": 1199.0},
        {"resize_cost": 1000.0},
        {"minimum": 4, "maximum": 4},
        {"maximum": 4, "priority": 1},
        {"queue": "another"},
        {"namespace": "another"},
        {"pinned": 4},
        {"held": True},
        {"candidates": frozenset({"a0"})},
    ],
    ids=str,
)
def test_neither_lends_to_the_other_where_one_of_them(of_a: dict[str, Any]) -> None:
    assert sizes(decide(nodes(2), *two(**of_a))) == {"a": 4, "b": 4}


def test_nothing_is_lent_where_it_would_teach_nothing() -> None:
    known = [dataclasses.replace(one, measured=frozenset({3, 4, 5})) for one in two()]

    assert sizes(decide(nodes(2), *known)) == {"a": 4, "b": 4}
    assert sizes(decide(nodes(2), known[0], two()[1])) == {"a": 5, "b": 3}


def test_nothing_is_lent_while_there_is_room_or_another_trial() -> None:
    tries = job("c", maximum=2, on={"a2": 2}, measured=frozenset({1}), **KNOWN | {"stood": 20.0})
    full = job("d", 2, 2, on={"a2": 2})

    grants = decide(nodes(3), *two())

    assert sum(sizes(grants).values()) == 12
    assert not any("lent" in grant.message for grant in grants.values())
    assert sizes(decide(nodes(3), *two(), tries, full)) == {"a": 4, "b": 4, "c": 2, "d": 2}


def test_a_trial_is_at_most_a_quarter_more_and_less_of_both_and_a_size_that_is_allowed() -> None:
    wide: dict[str, Any] = {"maximum": 32, "resize_cost": 5.0, **KNOWN | {"curves": {"": curves.unmeasured(32)}}}
    both = [job(name, on={f"a{i}": 16}, measured=frozenset({16}), **wide) for i, name in enumerate("ab")]

    def given(*allowed: int) -> dict[str, int]:
        return sizes(decide(nodes(2, 16), *(dataclasses.replace(one, allowed=allowed) for one in both)))

    assert given() == {"a": 20, "b": 12}
    assert given(4, 13, 16, 19, 32) == {"a": 19, "b": 13}
    assert given(8, 16) == given(8, 16, 32) == given(14, 16, 19) == {"a": 16, "b": 16}


def on_trial(**fields: Any) -> tuple[snapshot.Job, snapshot.Job]:
    """The two in the middle of it."""
    plain = {"measured": frozenset({4}), "resize_cost": 1.0, **KNOWN, "stood": 20.0} | fields
    return job("a", on={"a0": 4, "a1": 1}, **plain), job("b", on={"a1": 3}, **plain)


def test_both_keep_their_size_until_it_is_measured_or_has_had_its_time() -> None:
    assert sizes(decide(nodes(2), *on_trial())) == {"a": 5, "b": 3}
    assert sizes(decide(nodes(2), *on_trial(stood=302.0))) == {"a": 4, "b": 4}

    a, b = on_trial()
    flat = dataclasses.replace(a, measured=frozenset({4, 5}), curves={"": curves.Curve((1.0,) * 8)})
    assert sizes(decide(nodes(2), flat, dataclasses.replace(b, measured=frozenset({3, 4})))) == {"a": 1, "b": 7}


def test_a_trial_keeps_nobody_from_its_minimum() -> None:
    grants = decide(nodes(2), *on_trial(), job("urgent", 6, 6, priority=1))

    assert sizes(grants) == {"a": 1, "b": 1, "urgent": 6}


def test_room_that_was_lent_is_for_the_borrower_though_others_still_leave_it() -> None:
    lent = {"measured": frozenset({3}), **KNOWN}
    waits, lender = job("a", on={"a0": 3}, promised=4, **lent), job("b", on={"a1": 2}, **lent | {"stood": 1.0})
    keen = job("c", on={"a1": 2}, resize_cost=0.0)

    assert sizes(decide(nodes(2), waits, lender, keen)) == {"a": 4, "b": 2, "c": 2}
    assert sizes(decide(nodes(2), dataclasses.replace(waits, promised=0), lender, keen)) == {"a": 3, "b": 2, "c": 3}


# What comes of it

PACES = {"flat": 0.05, "middle": 0.5, "scales": 1.0}
"""n nodes are n to the power of this as fast as one."""


@pytest.mark.parametrize("seed", range(4))
def test_the_jobs_that_scale_end_with_more_of_a_full_cluster(seed: int) -> None:
    noise, upto = random.Random(seed), range(1, 5)  # noqa: S311 -- reproducible noise, no secret
    trace = [
        jobs.TraceJob(
            name=name,
            submitted=0.0,
            work=1e9,
            profile=jobs.Profile({n: (n**pace,) for n in upto}, dict.fromkeys(upto, 1)),
            minimum=1,
            maximum=4,
            requested=2,
        )
        for name, pace in PACES.items()
    ]
    events, options = [replaying.Event(0.0, nodes(3, 2))], replaying.Options(resize_cost=8.0, until=14_400.0)
    knowledge = learned.Learned(lambda: noise.gauss(0, 0.1), host=2, first=2)
    ended = replaying.Replay(trace, events, policies.ours(), knowledge, options).run()

    had = {run.job.name: run.nodes for run in ended.unfinished}
    assert had["flat"] == 1
    assert had["scales"] >= had["middle"] > 0
    assert had["scales"] >= 3
    assert max(run.changes for run in ended.unfinished) <= 8
    assert max(at for at, _, _ in ended.timeline) < 7200


class Operator:
    """What the operator's loop does with a full cluster of six devices, in a time of its own."""

    def __init__(self) -> None:
        self.now = worlds.NOW
        self.given = {name: allocation.Allocation(0, allocation.UNDECIDED, "", self.now) for name in PACES}
        self.known = dict.fromkeys(PACES, learning.Knowledge.new(2))
        self.pods = dict.fromkeys(PACES, 0)
        self.promises: carrying.Promises = {}
        self.words: list[str] = []

    def tick(self) -> None:
        """A quarter of a minute: reports, a decision, and pods that come and leave."""
        self.now += 15
        memories = {f"uid-{name}": self._memory(name) for name in PACES}
        jobs = [worlds.job(name, status={"allocation": allocation.dump(one)}) for name, one in self.given.items()]
        pods = [
            worlds.pod(f"{name}-{n}-0", "n0", job=name, leaving=n >= self.given[name].nodes)
            for name, count in self.pods.items()
            for n in range(count)
        ]
        world = worlds.world(*jobs, nodes=[worlds.node("n0", 6)], pods=pods, memories=memories)
        promised = {name: grant.nodes for name, grant in self.promises.items()}
        seen = picture.paint(dataclasses.replace(world, now=self.now, promised=promised), worlds.RULES)
        made = deciding.decide(seen.snapshot, settings.Settings(moves=False))
        found, self.promises = carrying.carried(made, seen, memories, self.promises, self.now)
        self.pods = {name: self.given[name].nodes for name in PACES}
        self.given = {name: found[f"uid-{name}"] for name in PACES}
        self.words += [one.message for one in self.given.values()]

    def _memory(self, name: str) -> measuring.Memory:
        size = self.given[name].nodes
        if size and self.now - (self.given[name].time or 0) > 30:
            self.known[name] = self.known[name].report((size, False), size ** PACES[name], 2, 4)
        return measuring.Memory(self.known[name], resize_seconds=8)


def test_the_operators_loop_finds_the_job_that_scales_and_says_what_it_does() -> None:
    operator = Operator()
    for _ in range(200):
        operator.tick()
    found = {name: one.nodes for name, one in operator.given.items()}

    assert found["flat"] == 1
    assert found["scales"] >= 3
    assert sum(found.values()) == 6
    assert any("tries this size for the first time, 1 node lent by default/" in words for words in operator.words)
    assert any("lent to default/" in words for words in operator.words)
    assert not operator.promises
