"""Who gets how many nodes, case by case."""

from __future__ import annotations

import pytest

from elasticjob_operator.autoscaler import curves, decision, settings, snapshot
from unit.autoscaler.cases import decide, job, linear, nodes, sizes

REASON = decision.Reason


def test_a_lone_job_gets_all_it_can_use_and_no_more() -> None:
    assert sizes(decide(nodes(4), job("j", maximum=8))) == {"j": 8}
    assert sizes(decide(nodes(1), job("j", maximum=8))) == {"j": 4}


def test_a_gang_starts_whole_or_not_at_all() -> None:
    grants = decide(nodes(2), job("old", 6, 8, age=7200.0), job("young", 4, 8))

    assert sizes(grants) == {"old": 8, "young": 0}
    assert grants["young"].reason is REASON.WAITING
    assert grants["young"].placement == ()


def test_no_job_waits_while_the_minimums_fit_however_much_the_others_could_use() -> None:
    grants = decide(nodes(2), job("big", 1, 8, on={"a0": 4, "a1": 4}), *(job(f"new{i}", age=0.0) for i in range(7)))

    assert all(grant.nodes == 1 for grant in grants.values())


def test_a_smaller_gang_runs_in_the_room_that_a_larger_one_before_it_cannot_use() -> None:
    assert sizes(decide(nodes(1), job("first", 3, 3), job("wide", 4, 4), job("narrow"))) == {
        "first": 3,
        "wide": 0,
        "narrow": 1,
    }


def test_only_allowed_sizes_are_granted() -> None:
    assert sizes(decide(nodes(2), job("j", 2, 8, allowed=(2, 4, 8, 16)), job("k", 1, 1))) == {"j": 4, "k": 1}


def test_nodes_of_several_accelerators_are_counted_whole() -> None:
    assert sizes(decide(nodes(2, each=4), job("j", maximum=9, accelerators=3))) == {"j": 2}
    assert sizes(decide(nodes(2, each=8), job("j", maximum=9, accelerators=4), job("k", maximum=2))) == {"j": 3, "k": 2}


def test_surplus_goes_to_the_job_that_scales() -> None:
    flat = {"": curves.Curve((1.0, 1.1, 1.15, 1.17, 1.18, 1.19))}

    assert sizes(decide(nodes(2), job("flat", curves=flat), job("steep"))) == {"flat": 1, "steep": 7}


def test_a_size_that_is_slower_is_skipped_even_when_there_is_room() -> None:
    drops = {"": curves.Curve((1.0, 1.9, 2.5, 2.9, 1.5, 1.4, 1.5, 1.6))}

    assert sizes(decide(nodes(2), job("yolo", curves=drops))) == {"yolo": 4}


def test_a_valley_between_good_sizes_is_jumped_over() -> None:
    valley = {"": curves.Curve((1.0, 1.9, 2.5, 2.9, 1.5, 1.4, 1.5, 5.5))}

    assert sizes(decide(nodes(2), job("j", curves=valley))) == {"j": 8}


def test_the_young_are_preferred_among_jobs_that_scale_alike() -> None:
    grants = decide(nodes(4), job("old", maximum=16, age=36_000.0), job("young", maximum=16, age=60.0))

    assert grants["young"].nodes > grants["old"].nodes >= 1


def test_a_change_that_does_not_earn_its_cost_back_is_left() -> None:
    barely = {"": curves.Curve((1.0, 1.5, 1.9, 2.0))}
    running = job("j", maximum=4, on={"a0": 3}, curves=barely, resize_cost=60.0)

    assert sizes(decide(nodes(1), running)) == {"j": 3}
    assert sizes(decide(nodes(1), running, rules=settings.Settings(horizon=6000.0))) == {"j": 4}


def test_the_costly_to_resize_stay_where_the_cheap_move() -> None:
    grants = decide(
        nodes(2),
        job("cheap", on={"a0": 4}, resize_cost=1.0),
        job("dear", on={"a1": 4}, resize_cost=600.0),
        job("new", age=3600.0),
    )

    assert grants["dear"].nodes == 4
    assert grants["cheap"].nodes + grants["new"].nodes == 4


def test_a_pinned_job_gets_what_its_owner_says_before_any_surplus() -> None:
    grants = decide(nodes(2), job("mine", pinned=5, age=10.0), job("hungry"))

    assert sizes(grants) == {"mine": 5, "hungry": 3}


@pytest.mark.parametrize(("pinned", "got"), [(0, 2), (-4, 2), (3, 2), (5, 4), (100, 4)])
def test_a_pinned_size_that_cannot_be_had_becomes_the_nearest_below_or_the_minimum(pinned: int, got: int) -> None:
    assert sizes(decide(nodes(2), job("mine", 2, 4, allowed=(2, 4), pinned=pinned))) == {"mine": got}


def test_a_held_job_keeps_its_size_and_its_pods() -> None:
    grants = decide(nodes(2), job("busy", on={"a0": 2, "a1": 2}, held=True), job("other", priority=9))

    assert sizes(grants) == {"busy": 4, "other": 4}
    assert grants["busy"].reason is REASON.HELD
    assert grants["busy"].placement == (snapshot.Placement("a0", 2), snapshot.Placement("a1", 2))


def test_a_held_job_keeps_its_pods_even_where_there_is_less_room_than_they_need() -> None:
    grants = decide(nodes(2, each=2), job("busy", on={"a0": 3}, held=True), job("other"))

    assert grants["busy"].nodes == 3
    assert grants["other"].nodes >= 1
    assert grants["busy"].placement == (snapshot.Placement("a0", 3),)


def test_pods_that_stayed_unschedulable_bound_the_size() -> None:
    assert sizes(decide(nodes(2), job("j", ceiling=3))) == {"j": 3}


def test_a_job_on_cpus_needs_no_accelerator_and_takes_none() -> None:
    assert sizes(decide(nodes(1), job("cpu", maximum=6, accelerators=0), job("gpu"))) == {"cpu": 6, "gpu": 4}
    assert sizes(decide(nodes(1, each=0), job("cpu", maximum=3, accelerators=0))) == {"cpu": 3}


def test_unmeasured_jobs_share_alike() -> None:
    grants = decide(nodes(2), job("a", curves={}), job("b", curves={}))

    assert sizes(grants) == {"a": 4, "b": 4}


def test_sizes_beyond_a_curve_are_not_offered_and_the_minimum_always_is() -> None:
    assert sizes(decide(nodes(4), job("j", maximum=16, curves={"": linear(4)}))) == {"j": 4}
    assert sizes(decide(nodes(4), job("j", 6, 16, curves={"": linear(4)}))) == {"j": 6}
