"""What is believed of throughputs, what is learned, and what is made of it."""

from __future__ import annotations

import itertools
import math
import random

import hypothesis
import pytest
from hypothesis import strategies as st

from elasticjob_operator.autoscaler import curves, fitting, learning

TRUE = fitting.Model(0.05, 1.0, 0.05, 0.002, 0.2, 0.004, 2.0)
HOST = 4


def learn(
    reports: list[tuple[int, float]], *, maximum: int = 64, known: learning.Knowledge | None = None
) -> learning.Knowledge:
    known = known or learning.Knowledge.new(1)
    for nodes, rate in reports:
        known = known.report((nodes, nodes > HOST), rate, HOST, maximum)
    return known


def true(nodes: int) -> float:
    return TRUE.rate(nodes, across=nodes > HOST)


def test_a_curve_tells_logarithms_of_its_rates() -> None:
    curve = curves.Curve((1.0, 2.0, 3.0))

    assert [math.exp(curve.log(n)) for n in (1, 2, 3)] == pytest.approx([1, 2, 3])
    assert curve.log(0) == -math.inf
    assert math.exp(curve.log(6)) == pytest.approx(3 * 2**curves.UNMEASURED_EXPONENT)


@pytest.mark.parametrize("rates", [(), (0.0,), (math.nan, -1.0), (math.inf, 1e99)])
def test_a_curve_of_nonsense_is_the_unmeasured_one(rates: tuple[float, ...]) -> None:
    assert curves.Curve(rates).logs == curves.unmeasured(len(rates)).logs


def test_what_is_not_known_attracts_nobody() -> None:
    curve = curves.Curve((0.0, 2.0, math.nan, 3.5))

    assert [math.exp(log) for log in curve.logs] == pytest.approx([1.0, 2.0, 2.0, 3.5])


def test_no_size_is_believed_to_be_far_more_than_linear() -> None:
    assert math.exp(curves.Curve((1.0, 1e9)).log(2)) == pytest.approx(2 * curves.SUPERLINEAR)


def test_scattered_is_never_better_than_packed() -> None:
    curve = curves.Curve((1.0, 2.0, 3.0), (1.0, 5.0))

    assert curve.scattered_logs == curve.logs
    assert curves.Curve((1.0, 2.0), (1.0, 1.2)).log(2, scattered=True) == pytest.approx(math.log(1.2))


def test_a_ladder_jumps_over_valleys_and_stops_at_the_top() -> None:
    ladder = curves.Curve((1.0, 1.9, 2.5, 2.9, 1.5, 1.4, 1.5, 5.5, 5.4)).ladder(1)

    assert [size for size, _ in ladder] == [1, 2, 3, 8]


@hypothesis.given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20), st.integers(1, 20))
def test_a_ladders_steps_give_less_and_less(rates: list[float], first: int) -> None:
    ladder = curves.Curve(tuple(rates)).ladder(first)
    gains = [curves.slope(a, b) for a, b in itertools.pairwise(ladder)]

    assert ladder[0][0] == first
    assert gains == sorted(gains, reverse=True)
    assert all(gain > 0 for gain in gains)


def test_the_fit_finds_the_function_again() -> None:
    points = [fitting.Point(n, n > HOST, true(n), 64) for n in (1, 2, 4, 6, 8, 16)]
    model = fitting.fit(points)

    for n in (1, 2, 3, 4, 5, 8, 12, 16, 24):
        assert model.rate(n, across=n > HOST) == pytest.approx(true(n), rel=0.10)


def test_one_point_is_enough_to_go_on() -> None:
    model = fitting.fit([fitting.Point(1, across=False, rate=10.0)])

    assert model.rate(1, across=False) == pytest.approx(10.0, rel=0.05)
    assert 1.6 < model.rate(2, across=False) / 10 <= 2.0


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    st.lists(
        st.builds(fitting.Point, st.integers(1, 64), st.booleans(), st.floats(1e-12, 1e12), st.floats(1, 64)),
        min_size=1,
        max_size=8,
    )
)
def test_any_points_give_a_finite_model(points: list[fitting.Point]) -> None:
    model = fitting.fit(points)

    for n in (1, 2, 5, 128):
        assert math.isfinite(model.rate(n, across=True))
        assert model.rate(n, across=False) > 0


def test_sizes_are_offered_up_to_twice_the_largest_tried() -> None:
    assert learning.Knowledge.new(3).curve.reach == 3
    assert learn([(1, 1.0)]).curve.reach == 2
    assert learn([(1, 1.0), (5, 3.0)]).curve.reach == 10
    assert learn([(5, 3.0)], maximum=7).curve.reach == 7


def test_a_job_that_never_reports_doubles_by_running() -> None:
    known = learning.Knowledge.new(1).run(1, HOST, 64)

    assert known.curve == curves.unmeasured(2)
    assert known.run(2, HOST, 64).curve == curves.unmeasured(4)
    assert known.run(1, HOST, 64) is known


@pytest.mark.parametrize("absurd", [math.nan, math.inf, -math.inf, -1.0, 0.0, 1e13])
def test_absurd_reports_are_dropped(absurd: float) -> None:
    known = learn([(1, 1.0), (2, 1.9)])

    assert known.report((2, False), absurd, HOST, 64) is known
    assert known.report((0, False), 1.0, HOST, 64) is known
    assert known.report((65, False), 1.0, HOST, 64) is known


def test_an_outlier_is_tamed() -> None:
    known = learn([(2, 10.0)] * 8 + [(2, 1e9)])

    assert known.points[0].rate < 10.0 * learning.OUTLIER ** (1 / 8)


def test_one_low_report_does_not_end_a_size() -> None:
    known = learn([(n, true(n)) for n in (1, 2, 4) for _ in range(8)] + [(3, 0.65 * true(3))])

    assert known.curve.log(3) > known.curve.log(2)


def test_what_was_measured_many_times_is_believed_against_the_model() -> None:
    known = learn([(n, 1.0 * n) for n in (1, 2, 4) for _ in range(16)] + [(8, 1.6)] * 32)

    assert math.exp(known.curve.log(8)) == pytest.approx(1.6, rel=0.15)
    assert known.curve.log(8) < known.curve.log(4)


def test_noisy_reports_lead_near_the_truth() -> None:
    noise = random.Random(3)  # noqa: S311 -- reproducible noise
    known = learn([(n, true(n) * (1 + noise.gauss(0, 0.1))) for n in (1, 2, 4, 8) for _ in range(20)])

    for n in (1, 2, 3, 4, 6, 8, 12):
        assert math.exp(known.curve.log(n)) == pytest.approx(true(n), rel=0.15)


def test_the_curve_changes_only_when_the_evidence_has_doubled() -> None:
    noise = random.Random(4)  # noqa: S311 -- reproducible noise
    known, changes = learning.Knowledge.new(1), 0
    for _ in range(60):
        before = known.curve
        known = learn([(4, 3.0 * (1 + noise.gauss(0, 0.1)))], known=known)
        changes += known.curve is not before

    assert changes == 6
