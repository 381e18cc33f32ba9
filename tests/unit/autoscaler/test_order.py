"""Who comes first: priorities, queues, quotas, turns."""

from __future__ import annotations

from elasticjob_operator.autoscaler import decision, settings, snapshot
from unit.autoscaler.cases import decide, job, nodes, sizes

REASON = decision.Reason


def test_a_higher_priority_takes_surplus_before_anybody_is_suspended() -> None:
    low = [job(f"low{i}", 2, 4, on={f"a{i}": 4}) for i in range(2)]

    assert sizes(decide(nodes(2), *low, job("high", 4, 4, priority=10, age=0.0))) == {"low0": 2, "low1": 2, "high": 4}


def test_it_then_suspends_the_lowest_priority_which_resumes_by_itself() -> None:
    running = [
        job("middle", 4, 4, on={"a0": 4}, priority=5),
        job("lowest", 4, 4, on={"a1": 4}, priority=1),
    ]
    grants = decide(nodes(2), *running, job("high", 4, 4, priority=10, age=0.0))

    assert sizes(grants) == {"middle": 4, "lowest": 0, "high": 4}
    assert grants["lowest"].reason is REASON.PREEMPTED
    assert "high" in grants["lowest"].message
    assert sizes(decide(nodes(2), running[0], job("lowest", 4, 4, priority=1))) == {"middle": 4, "lowest": 4}


def test_a_higher_priority_takes_surplus_that_both_could_use() -> None:
    assert sizes(decide(nodes(2), job("low"), job("high", maximum=7, priority=1))) == {"low": 1, "high": 7}


def test_a_newcomer_of_equal_priority_waits_for_its_turn() -> None:
    running = job("old", 4, 4, on={"a0": 4}, served=4 * 1800.0, age=1800.0)

    assert sizes(decide(nodes(1), running, job("new", 4, 4, age=60.0))) == {"old": 4, "new": 0}


def test_after_a_turn_equals_that_waited_get_theirs_and_it_comes_back() -> None:
    had = job("old", 4, 4, on={"a0": 4}, served=4 * 3700.0, age=3700.0)

    assert sizes(decide(nodes(1), had, job("new", 4, 4, age=600.0))) == {"old": 0, "new": 4}

    waited = job("old", 4, 4, served=4 * 3700.0, age=8000.0, waited=3700.0)
    later = job("new", 4, 4, on={"a0": 4}, served=4 * 3700.0, age=4300.0)
    assert sizes(decide(nodes(1), waited, later)) == {"old": 4, "new": 0}


def test_a_queue_gets_back_what_it_lent() -> None:
    queues = (snapshot.Queue(name="red", quota=4), snapshot.Queue(name="blue", quota=4))
    red = [job(f"red{i}", 4, 4, queue="red", on={f"a{i}": 4}, age=7200.0 - i) for i in range(2)]

    assert sizes(decide(nodes(2), *red, queues=queues)) == {"red0": 4, "red1": 4}
    assert sizes(decide(nodes(2), *red, job("blue", 4, 4, queue="blue", age=0.0), queues=queues)) == {
        "red0": 4,
        "red1": 0,
        "blue": 4,
    }


def test_surplus_is_shared_by_weights_and_the_rest_borrowed() -> None:
    queues = (snapshot.Queue(name="red", weight=3.0), snapshot.Queue(name="blue", weight=1.0))
    both = job("red", maximum=16, queue="red"), job("blue", maximum=16, queue="blue")

    assert sizes(decide(nodes(4), *both, queues=queues)) == {"red": 12, "blue": 4}
    assert sizes(decide(nodes(4), job("red", maximum=2, queue="red"), both[1], queues=queues)) == {"red": 2, "blue": 14}


def test_a_queues_limit_is_never_passed() -> None:
    queues = (snapshot.Queue(name="red", quota=4, limit=6),)

    assert sizes(decide(nodes(4), job("red", maximum=16, queue="red"), queues=queues)) == {"red": 6}


def test_quotas_that_add_up_to_more_than_the_cluster_are_scaled_down_alike() -> None:
    queues = (snapshot.Queue(name="red", quota=24), snapshot.Queue(name="blue", quota=8), snapshot.Queue(name="rest"))
    both = job("red", maximum=16, queue="red"), job("blue", maximum=16, queue="blue")

    assert sizes(decide(nodes(4), *both, queues=queues)) == {"red": 12, "blue": 4}
    three = sizes(decide(nodes(4), *both, job("rest", maximum=16, queue="rest"), queues=queues))
    assert (three["rest"], sum(three.values())) == (1, 16)  # nothing is left to deserve, but its minimum fits


def test_a_resource_quota_is_never_passed() -> None:
    quotas = (snapshot.Quota("team", 5),)
    jobs = job("a", maximum=8, namespace="team"), job("b", maximum=8, namespace="team")

    assert sum(sizes(decide(nodes(4), *jobs, quotas=quotas)).values()) == 5


def test_500_jobs_of_one_namespace_leave_the_others_their_share() -> None:
    many = [job(f"many/{i}", namespace="many", age=9000.0) for i in range(500)]
    grants = decide(nodes(4), *many, job("few/1", maximum=8, namespace="few", age=1.0))

    assert grants["few/1"].nodes == 8
    assert sum(sizes(grants).values()) == 16


def test_the_administrator_can_make_turns_long() -> None:
    had = job("old", 4, 4, on={"a0": 4}, served=4 * 3700.0, age=3700.0)
    patient = settings.Settings(turn=86_400.0)

    assert sizes(decide(nodes(1), had, job("new", 4, 4, age=600.0), rules=patient)) == {"old": 4, "new": 0}
