from __future__ import annotations

import pytest

from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Member, Notice, Phase, Reason, Record, Result

OPEN = changing.started("job", {0, 1})
SEALED = changing.sealed(OPEN, [Member(0, "0000000a"), Member(1, "0000000b")], "10.0.0.1:1")
FINISHING = changing.finishing(SEALED)
CLOSED = changing.closed(SEALED, Result.SUCCEEDED)


def test_a_round_goes_from_open_to_sealed_to_the_next() -> None:
    following = changing.opened(changing.noticed(SEALED, Notice("n", 5)), Reason.RESIZED, plan={0, 1, 2}, absent={7, 2})
    assert (following.number, following.phase, following.reason) == (2, Phase.OPEN, Reason.RESIZED)
    assert (following.sealed, following.members, following.store) == (1, SEALED.members, SEALED.store)
    assert following.absent == {2}, "only slots of the plan"
    assert following.notice is None


def test_an_amended_round_keeps_its_number() -> None:
    amended = changing.amended(OPEN, plan={0}, absent={1}, suspects={"0000000a"}, reason=Reason.POD_LOST)
    assert (amended.number, amended.reason) == (1, Reason.POD_LOST)
    assert (amended.plan, amended.absent) == (frozenset({0}), frozenset())


def test_a_plan_may_change_while_a_round_runs() -> None:
    assert changing.amended(SEALED, plan={0, 1, 2}, absent={2}).absent == {2}


def test_what_bounds_a_seal_may_change_at_any_time_and_stays() -> None:
    again = changing.opened(changing.bounded(SEALED, min_nodes=2, sizes={2, 4}), Reason.WORKERS_FAILED)
    assert again.min_nodes == 2
    assert again.sizes == {2, 4}
    assert changing.bounded(again, min_nodes=1, sizes=()).min_nodes == 1


def test_a_seal_counts_a_failure_once_and_forgets_suspects() -> None:
    failed = changing.amended(changing.opened(SEALED, Reason.WORKERS_FAILED), suspects={"0000000c"})
    sealed = changing.sealed(failed, SEALED.members, "10.0.0.1:2")
    assert (sealed.failures, sealed.suspects) == (1, frozenset())


@pytest.mark.parametrize(
    ("change", "record"),
    [
        (lambda r: changing.opened(r, Reason.RESIZED), OPEN),
        (lambda r: changing.opened(r, Reason.RESIZED), CLOSED),
        (lambda r: changing.amended(r, suspects=["0000000a"]), SEALED),
        (lambda r: changing.amended(r, plan=[0]), CLOSED),
        (lambda r: changing.sealed(r, SEALED.members, "10.0.0.1:1"), SEALED),
        (changing.finishing, OPEN),
        (changing.finishing, FINISHING),
        (lambda r: changing.noticed(r, None), FINISHING),
        (lambda r: changing.closed(r, Result.FAILED), CLOSED),
        (lambda r: changing.closed(r, Result.NONE), SEALED),
    ],
)
def test_what_the_protocol_does_not_allow_is_a_bug(change: object, record: Record) -> None:
    with pytest.raises(ValueError, match=r"only|not|once|goes|begins"):
        change(record)  # type: ignore[operator]
