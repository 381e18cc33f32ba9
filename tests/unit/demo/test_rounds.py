"""The history of rounds: what is seen when, in whatever order the watches tell of it."""

from __future__ import annotations

import pytest

from demo.rounds import History
from elasticjob_rendezvous.round.record import Phase, Reason
from support.e2e_records import lease, member, open_record, sealed_record


def test_a_round_is_opened_sealed_and_trains() -> None:
    history = History()
    history.see_record(open_record(1, Reason.STARTED), 10.0)
    history.see_lease(lease(0, arrived=1), 11.0)
    history.see_record(sealed_record(1, reason=Reason.STARTED), 12.0)
    history.see_lease(lease(0, arrived=1, round_=1, step=1), 14.5)
    history.see_lease(lease(0, arrived=1, round_=1, step=9), 24.5)

    [only] = history.rounds
    assert (only.number, only.reason, only.size, sorted(only.slots)) == (1, Reason.STARTED, 2, [0, 1])
    assert (only.opened, only.sealed, only.trained) == (10.0, 12.0, 14.5)
    assert (only.first_step, only.last_step) == (1, 9)
    assert only.seconds_to_train == 4.5
    assert only.arrived == {0: 11.0}


def test_who_parks_arrived_before_the_round_was_opened() -> None:
    history = History()
    history.see_record(sealed_record(1), 1.0)
    history.see_lease(lease(2, arrived=2), 5.0)
    history.see_record(open_record(2), 6.0)

    assert history.current.arrived == {2: 5.0}
    assert history.current.opened == 6.0


def test_a_step_told_before_its_round_counts_from_the_rounds_opening() -> None:
    history = History()
    history.see_lease(lease(0, round_=3, step=40), 7.0)
    history.see_record(sealed_record(3), 7.2)

    assert history.current.trained == 7.2
    assert history.current.seconds_to_train == 0.0


def test_progress_of_an_earlier_round_stays_with_it() -> None:
    history = History()
    history.see_record(sealed_record(1), 1.0)
    history.see_lease(lease(0, round_=1, step=5), 2.0)
    history.see_record(open_record(2), 3.0)
    history.see_lease(lease(0, round_=1, step=6), 3.1)

    first, second = history.rounds
    assert first.last_step == 6
    assert second.trained is None


def test_an_open_round_has_no_members_yet_and_may_change_its_reason() -> None:
    history = History()
    history.see_record(sealed_record(1), 1.0)
    history.see_record(open_record(2, Reason.WORKERS_FAILED), 2.0)
    history.see_record(open_record(2, Reason.POD_LOST), 2.5)

    assert history.current.size == 0
    assert history.current.reason is Reason.POD_LOST
    assert history.current.opened == 2.0


def test_finishing_keeps_the_round() -> None:
    history = History()
    history.see_record(sealed_record(1), 1.0)
    history.see_record(sealed_record(1, phase=Phase.FINISHING), 9.0)

    assert [(one.number, one.sealed) for one in history.rounds] == [(1, 1.0)]


def test_a_round_number_that_goes_back_is_a_fault_of_the_product() -> None:
    history = History()
    history.see_record(sealed_record(4), 1.0)

    with pytest.raises(AssertionError, match="round 3 after round 4"):
        history.see_record(sealed_record(3), 2.0)


def test_two_memberships_of_one_round_are_a_fault_of_the_product() -> None:
    history = History()
    history.see_record(sealed_record(4, member(0), member(1)), 1.0)

    with pytest.raises(AssertionError, match="round 4 had members"):
        history.see_record(sealed_record(4, member(0), member(1, 2)), 2.0)
