"""Every rule of an agent's decisions, one by one. What they give together is explored in test_protocol_explored."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from elasticjob_rendezvous.round import agent, changing
from elasticjob_rendezvous.round.agent import Arrive, CheckIn, Leave, Sighting, Situation, Wait, Write
from elasticjob_rendezvous.round.lease import SlotLease
from elasticjob_rendezvous.round.record import Member, Phase, Reason, Record, Result

NONCES = [f"{slot:08x}" for slot in range(8)]
ME = agent.Process(job="job", slot=0, nonce=NONCES[0], pod="pod-0", low=1, high=4, planned=True)
ALONE = dataclasses.replace(ME, planned=False)
OPEN = changing.started("job", {0, 1, 2})
FREE_FOR_ALL = changing.started("job", ())


def held(slot: int, arrived: int = 0, *, nonce: str = "", still: float = 0, **fields: Any) -> Sighting:
    lease = SlotLease(slot, f"pod-{slot}", nonce or NONCES[slot], arrived, f"10.0.0.{slot}:1", seen=arrived, **fields)
    return Sighting(lease, still, limit=100)


def free(slot: int) -> Sighting:
    return Sighting(SlotLease(slot), 0, 100)


def sealed(record: Record, *members: int) -> Record:
    return changing.sealed(record, [Member(slot, NONCES[slot]) for slot in members], "10.0.0.0:1")


ROUND_1 = sealed(OPEN, 0, 1, 2)
ROUND_2 = changing.opened(ROUND_1, Reason.RESIZED)


def at(record: Record | None, own: Sighting | None = None, *others: Sighting, **fields: Any) -> Situation:
    me = fields.pop("me", ME)
    seen = [own, *others] if own and others else others
    leases = {s.lease.slot: s for s in seen if s} if others else None
    return Situation(
        me=me, record=record, own=own, held=bool(own and own.lease.nonce == me.nonce), leases=leases, **fields
    )


# The slot


def test_a_free_slot_is_taken_and_arrived_for_in_one_write() -> None:
    assert agent.decide(at(OPEN, free(0))) == Arrive(1, take=True)


def test_a_slot_is_taken_from_an_earlier_process_of_the_same_pod() -> None:
    before = Sighting(SlotLease(0, "pod-0", NONCES[7], arrived=1), 0, 100)
    assert agent.decide(at(OPEN, before)) == Arrive(1, take=True)


@pytest.mark.parametrize(("still", "action"), [(99, Wait()), (101, Arrive(1, take=True))])
def test_another_pods_slot_is_taken_only_after_its_limit(still: float, action: agent.Action) -> None:
    assert agent.decide(at(OPEN, Sighting(SlotLease(0, "other", NONCES[7]), still, 100))) == action


def test_a_finish_that_counts_is_not_overwritten() -> None:
    done = Sighting(SlotLease(0, "pod-0", NONCES[7], arrived=1, finished=1), 1e9, 100)
    assert agent.decide(at(ROUND_1, done)) == Wait()
    assert agent.decide(at(sealed(ROUND_2, 0), done)) == Arrive(3, take=True)


def test_a_slot_once_lost_is_not_taken_back() -> None:
    lost = dataclasses.replace(at(OPEN, free(0)), held=True)
    action = agent.decide(lost)
    assert isinstance(action, Leave)
    assert action.code == 1


def test_a_slot_that_is_not_planned_ends_with_0() -> None:
    assert agent.decide(at(changing.amended(OPEN, plan={1}), held(0, 1))) == Leave(0, "slot 0 is not wanted any more")


@pytest.mark.parametrize(("result", "code"), [(Result.SUCCEEDED, 0), (Result.FAILED, 1)])
def test_a_closed_job_ends_everybody(result: Result, code: int) -> None:
    action = agent.decide(at(changing.closed(ROUND_1, result), free(0)))
    assert isinstance(action, Leave)
    assert action.code == code


def test_who_ends_with_a_failed_job_says_why_it_was_given_up() -> None:
    closed = changing.closed(ROUND_1, Result.FAILED, "TooManyFailures: 11 failures")
    assert agent.decide(at(closed, free(0))) == Leave(1, "the job has failed (round 1): TooManyFailures: 11 failures")


# Arriving and parking


def test_without_a_record_a_planned_agent_waits() -> None:
    assert agent.decide(at(None, free(0))) == Wait()


def test_a_newcomer_parks_for_the_next_round() -> None:
    record = sealed(OPEN, 1, 2)
    assert agent.decide(at(record, free(0))) == Arrive(2, take=True)
    assert agent.decide(at(record, held(0, 2))) == Wait()


def test_who_is_parked_for_a_round_that_went_by_arrives_anew() -> None:
    assert agent.decide(at(dataclasses.replace(OPEN, number=5, sealed=4), held(0, 3))) == Arrive(5)


def test_a_member_checks_in() -> None:
    assert agent.decide(at(ROUND_1, held(0, 1))) == CheckIn(ROUND_1)


def test_a_member_without_the_api_for_the_fencing_bound_does_not_check_in() -> None:
    """Its slot may be another's by the time its workers would start."""
    assert agent.decide(at(ROUND_1, held(0, 1), fenced=True)) == Wait()


def test_a_fresh_process_in_a_members_slot_is_no_member_and_asks_for_a_round() -> None:
    fresh = held(0, 2, nonce=NONCES[7])
    action = agent.decide(at(ROUND_1, fresh, me=dataclasses.replace(ME, nonce=NONCES[7])))
    assert isinstance(action, Write)
    assert (action.record.number, action.record.reason) == (2, Reason.AGENT_RESTARTED)


# Leaving by one's own doing


def test_whose_workers_failed_opens_the_next_round_and_never_reenters_this_one() -> None:
    action = agent.decide(at(ROUND_1, held(0, 1), left=1))
    assert isinstance(action, Write)
    assert (action.record.number, action.record.reason) == (2, Reason.WORKERS_FAILED)


def test_a_round_that_an_agent_opens_never_grows() -> None:
    record = changing.amended(ROUND_1, plan={0, 1, 2, 3})
    assert agent.opened(record, Reason.WORKERS_FAILED, planned=True).absent == {3}


def test_a_failure_beside_a_finish_is_told_by_parking_and_left_to_the_operator() -> None:
    """The operator can know of it by nothing else: who only waited would wait for ever."""
    finishing = changing.finishing(ROUND_1)
    assert agent.decide(at(finishing, held(0, 1), left=1)) == Arrive(2)
    assert agent.decide(at(finishing, held(0, 2), left=1)) == Wait()
    assert agent.decide(at(finishing, held(0, 1), left=1, me=ALONE)).__class__ is Leave


# Sealing


def test_exactly_the_awaited_slots_seal_at_once_in_slot_order() -> None:
    action = agent.decide(at(OPEN, held(0, 1), held(2, 1), held(1, 1)))
    assert isinstance(action, Write)
    assert [m.slot for m in action.record.members] == [0, 1, 2]
    assert action.record.store == "10.0.0.0:1"


def test_a_missing_slot_is_awaited() -> None:
    assert agent.decide(at(OPEN, held(0, 1), held(1, 1), free(2))) == Wait(look=True)


def test_an_absent_slot_is_not_awaited_but_let_in() -> None:
    absent = changing.amended(OPEN, absent={2})
    without = agent.decide(at(absent, held(0, 1), held(1, 1), free(2)))
    with_it = agent.decide(at(absent, held(0, 1), held(1, 1), held(2, 1)))
    assert isinstance(without, Write)
    assert isinstance(with_it, Write)
    assert (len(without.record.members), len(with_it.record.members)) == (2, 3)


def test_who_has_arrived_for_another_round_has_not_arrived() -> None:
    assert agent.decide(at(ROUND_2, held(0, 2), held(1, 2), held(2, 1))) == Wait(look=True)
    assert agent.decide(at(ROUND_2, held(0, 2), held(1, 2), held(2, 3))) == Wait(look=True)


def test_a_suspect_is_neither_awaited_nor_a_member_but_its_successor_is() -> None:
    record = changing.amended(ROUND_2, suspects={NONCES[2]})
    action = agent.decide(at(record, held(0, 2), held(1, 2), held(2, 2)))
    assert isinstance(action, Write)
    assert [m.slot for m in action.record.members] == [0, 1]
    assert agent.decide(at(record, held(0, 2), held(1, 2), held(2, 1, nonce=NONCES[6]))) == Wait(look=True)


def test_a_process_that_was_found_gone_is_not_awaited_but_let_in_and_its_successor_awaited() -> None:
    gone = frozenset({NONCES[2]})
    without = agent.decide(at(ROUND_2, held(0, 2), held(1, 2), held(2, 1), gone=gone))
    with_it = agent.decide(at(ROUND_2, held(0, 2), held(1, 2), held(2, 2), gone=gone))
    assert isinstance(without, Write)
    assert isinstance(with_it, Write)
    assert (len(without.record.members), len(with_it.record.members)) == (2, 3)
    after = at(ROUND_2, held(0, 2), held(1, 2), held(2, 1, nonce=NONCES[6]), gone=gone)
    assert agent.decide(after) == Wait(look=True)


def test_who_was_found_gone_is_no_witness() -> None:
    wider = changing.opened(ROUND_1, Reason.RESIZED, plan=range(4))
    newcomer = dataclasses.replace(ME, slot=3, nonce=NONCES[3], pod="pod-3")
    others = [held(slot, 1) for slot in range(3)]
    assert agent.decide(at(wider, held(3, 2), *others, me=newcomer, gone=frozenset(NONCES[:3]))) == Wait(look=True)


def test_suspects_are_forgiven_rather_than_falling_below_min() -> None:
    record = changing.amended(ROUND_2, suspects={NONCES[2]})
    needed = dataclasses.replace(ME, low=3)
    action = agent.decide(at(record, held(0, 2), held(1, 2), held(2, 2), me=needed))
    assert isinstance(action, Write)
    assert action.record.suspects == frozenset()
    assert action.record.phase is Phase.OPEN
    assert agent.decide(at(record, held(0, 2), held(1, 2), held(2, 1), me=needed)) == Wait(look=True), "it is gone"


def test_too_few_do_not_seal() -> None:
    record = changing.amended(OPEN, plan={0})
    assert agent.decide(at(record, held(0, 1), free(1), me=dataclasses.replace(ME, low=2))) == Wait(look=True)


@pytest.mark.parametrize(("told", "written", "seals"), [(1, 3, False), (3, 2, True), (3, 0, False)])
def test_the_records_minimum_counts_for_more_than_what_the_pod_was_told(
    told: int, written: int, *, seals: bool
) -> None:
    record = changing.bounded(changing.amended(OPEN, plan={0, 1}), min_nodes=written, sizes=())
    action = agent.decide(at(record, held(0, 1), held(1, 1), me=dataclasses.replace(ME, low=told)))
    assert isinstance(action, Write) is seals


def test_a_plan_of_more_than_the_pod_was_told_is_sealed_in_full() -> None:
    here = [held(slot, 1) for slot in range(3)]
    action = agent.decide(at(OPEN, *here, me=dataclasses.replace(ME, high=2)))
    assert isinstance(action, Write)
    assert len(action.record.members) == 3


@pytest.mark.parametrize(("sizes", "members"), [({1, 2, 4}, [0, 1]), ({1, 3}, [0, 1, 2]), ((), [0, 1, 2]), ({4}, None)])
def test_a_round_has_no_more_members_than_its_sizes_allow(sizes: set[int], members: list[int] | None) -> None:
    record = changing.bounded(OPEN, min_nodes=1, sizes=sizes)
    action = agent.decide(at(record, *(held(slot, 1) for slot in range(3))))
    assert ([m.slot for m in action.record.members] if isinstance(action, Write) else None) == members


def test_who_was_one_too_many_parks_for_the_next_round() -> None:
    sealed = changing.sealed(OPEN, [Member(0, NONCES[0]), Member(1, NONCES[1])], "10.0.0.1:4000")
    third = dataclasses.replace(ME, slot=2, nonce=NONCES[2], pod="pod-2")
    assert agent.decide(at(sealed, held(2, 1), me=third)) == Arrive(2)


def test_without_an_operator_the_records_minimum_says_nothing() -> None:
    alone = [held(slot, 1) for slot in range(2)]
    record = dataclasses.replace(FREE_FOR_ALL, min_nodes=1)
    me = dataclasses.replace(ALONE, low=3)
    assert agent.decide(at(record, *alone, me=me, enough=9)) == Wait(look=True)


def test_without_a_witness_nobody_seals() -> None:
    only_others = changing.amended(ROUND_2, plan={3}, absent=())
    three = dataclasses.replace(ME, slot=3, nonce=NONCES[3], pod="pod-3")
    cut_off = [held(0, 1), held(1, 1), held(2, 1)]
    assert agent.decide(at(only_others, held(3, 2), *cut_off, me=three)) == Wait(look=True)
    assert isinstance(agent.decide(at(only_others, held(3, 2), free(0), *cut_off[1:], me=three)), Write)


def test_after_a_lost_record_every_holder_must_have_arrived_and_none_finished() -> None:
    lost = changing.started("job", {0, 1}, number=7, reason=Reason.STATE_LOST)
    assert agent.decide(at(lost, held(0, 7), held(1, 7), held(2, 3))) == Wait(look=True)
    assert agent.decide(at(lost, held(0, 7), held(1, 7, finished=6))) == Wait(look=True)
    assert isinstance(agent.decide(at(lost, held(0, 7), held(1, 7), free(2))), Write)


def test_a_lease_that_stood_still_makes_its_slot_absent() -> None:
    action = agent.decide(at(OPEN, held(0, 1), held(1, 1), held(2, 0, still=101)))
    assert isinstance(action, Write)
    assert action.record.absent == {2}


def test_a_slot_without_a_lease_is_awaited() -> None:
    assert agent.decide(at(OPEN, held(0, 1), held(1, 1))) == Wait(look=True)


def test_a_slot_that_nobody_takes_is_given_up_but_not_before_the_first_start() -> None:
    free_for_long = Sighting(SlotLease(2), still=101, limit=100)
    action = agent.decide(at(ROUND_2, held(0, 2), held(1, 2), free_for_long))
    assert isinstance(action, Write)
    assert action.record.absent == {2}
    assert agent.decide(at(OPEN, held(0, 1), held(1, 1), free_for_long)) == Wait(look=True)


def test_an_absent_slot_that_has_arrived_counts_against_forgiving() -> None:
    """Else an operator that names suspects and an agent that forgives them undo each other's writes in turn."""
    record = changing.amended(ROUND_2, suspects={NONCES[2]}, absent={0, 1, 2})
    action = agent.decide(at(record, held(0, 2), free(1), held(2, 1)))
    assert isinstance(action, Write)
    assert action.record.phase is Phase.SEALED


def test_who_falls_silent_in_an_open_round_is_suspected_by_the_old_rank_0_only() -> None:
    silent = frozenset({Member(2, NONCES[2])})
    leases = [held(0, 2), held(1, 2), held(2, 1)]
    action = agent.decide(at(ROUND_2, *leases, silent=silent))
    assert isinstance(action, Write)
    assert action.record.suspects == {NONCES[2]}
    one = dataclasses.replace(ME, slot=1, nonce=NONCES[1], pod="pod-1")
    assert agent.decide(at(ROUND_2, held(1, 2), held(0, 2), held(2, 1), silent=silent, me=one)) == Wait(look=True)
    needed = dataclasses.replace(ME, low=3)
    assert agent.decide(at(ROUND_2, *leases, silent=silent, me=needed)) == Wait(look=True), "else it would be forgiven"


@pytest.mark.parametrize(("slot", "turn"), [(0, 0), (1, 1), (3, 3), (4, 13), (7, 43)])
def test_the_first_slots_look_one_after_the_other_and_the_rest_much_later(slot: int, turn: float) -> None:
    record = changing.started("job", range(8))
    me = dataclasses.replace(ME, slot=slot, nonce=NONCES[slot], pod=f"pod-{slot}")
    early = agent.decide(at(record, held(slot, 1), waited=turn - 0.1, me=me))
    late = agent.decide(at(record, held(slot, 1), waited=turn, me=me))
    assert (early, late) == (Wait(look=turn == 0 and slot != 0), Wait(look=True))


@pytest.mark.parametrize(
    ("me", "record", "wanted"),
    [
        (ME, ROUND_1, True),
        (ME, ROUND_2, True),
        (dataclasses.replace(ME, slot=3), ROUND_1, False),
        (ME, changing.closed(ROUND_1, Result.FAILED), False),
        (ALONE, FREE_FOR_ALL, False),
    ],
)
def test_whose_slot_is_planned_is_missed(me: agent.Process, record: Record, *, wanted: bool) -> None:
    assert agent.wanted(me, record) is wanted


@pytest.mark.parametrize("record", [OPEN, ROUND_1, ROUND_2])
@pytest.mark.parametrize("slot", [0, 2, 3])
@pytest.mark.parametrize("arrived", [0, 1, 2])
def test_what_a_newer_version_has_written_besides_changes_no_decision(record: Record, slot: int, arrived: int) -> None:
    newer = dataclasses.replace(record, reason=Reason("NodeDefragmented"), more='{"zones":[1]}')
    me = dataclasses.replace(ME, slot=slot, nonce=NONCES[slot], pod=f"pod-{slot}")
    leases = [held(slot, arrived), *(held(other, 2) for other in range(3) if other != slot)]

    def decided(seen: Record) -> agent.Action:
        return agent.decide(at(seen, *leases, me=me, waited=1000))

    found, known = decided(newer), decided(record)
    assert type(found) is type(known)
    if isinstance(found, Write) and isinstance(known, Write):
        assert (found.record.more, found.record.number) == (newer.more, known.record.number)


# Judging


def judged(silent: set[int], me: int = 0, record: Record = ROUND_1, **finished: Any) -> Write | None:
    leases = {slot: held(slot, 1, **finished) for slot in range(3)}
    process = dataclasses.replace(ME, slot=me, nonce=NONCES[me])
    return agent.judged(record, process, {Member(slot, NONCES[slot]) for slot in silent}, leases)


def test_rank_0_leaves_a_silent_member_behind() -> None:
    verdict = judged({2})
    assert verdict is not None
    assert (verdict.record.reason, verdict.record.suspects) == (Reason.PEER_SILENT, frozenset({NONCES[2]}))


def test_who_hears_a_minority_takes_itself_for_the_one_cut_off() -> None:
    verdict = judged({1, 2})
    assert verdict is not None
    assert verdict.record.suspects == {NONCES[0]}


def test_other_members_judge_rank_0_alone() -> None:
    assert judged({2}, me=1) is None
    verdict = judged({0, 2}, me=1)
    assert verdict is not None
    assert verdict.record.suspects == {NONCES[0]}


def test_silent_because_finished_is_no_fault() -> None:
    verdict = judged({2}, finished=1)
    assert verdict is not None
    assert verdict.record.phase is Phase.FINISHING


def test_nobody_judges_in_a_round_that_is_open_or_finishing() -> None:
    assert judged({2}, record=ROUND_2) is None
    assert judged({2}, record=changing.finishing(ROUND_1)) is None


@pytest.mark.parametrize(
    ("record", "stop"),
    [
        (ROUND_1, False),
        (changing.finishing(ROUND_1), False),
        (ROUND_2, True),
        (changing.closed(ROUND_1, Result.FAILED), True),
        (changing.closed(ROUND_1, Result.SUCCEEDED), False),
        (changing.closed(ROUND_2, Result.SUCCEEDED), False),
    ],
)
def test_when_workers_must_stop(record: Record, stop: bool) -> None:  # noqa: FBT001 - a table's column
    assert agent.over(record, ME, 1) is stop


# Standalone


def test_the_first_record_is_round_1_and_a_lost_one_comes_back_above_all_numbers() -> None:
    assert agent.decide(at(None, free(0), me=ALONE)) == Wait(look=True)
    first = agent.decide(dataclasses.replace(at(None, free(0), me=ALONE), leases={}))
    again = agent.decide(dataclasses.replace(at(None, held(0, 3), held(1, 6), me=ALONE), seen=4))
    assert isinstance(first, Write)
    assert isinstance(again, Write)
    assert (first.record.number, first.record.reason) == (1, Reason.STARTED)
    assert (again.record.number, again.record.reason) == (7, Reason.STATE_LOST)


def test_max_closes_at_once_and_fewer_after_the_last_call() -> None:
    full = [held(slot, 1) for slot in range(4)]
    assert isinstance(agent.decide(at(FREE_FOR_ALL, *full, me=ALONE)), Write)
    assert agent.decide(at(FREE_FOR_ALL, *full[:3], me=ALONE, enough=4.9)) == Wait(look=True)
    assert isinstance(agent.decide(at(FREE_FOR_ALL, *full[:3], me=ALONE, enough=5)), Write)


def test_more_than_max_seal_the_first_max() -> None:
    action = agent.decide(at(FREE_FOR_ALL, *(held(slot, 1) for slot in range(6)), me=ALONE))
    assert isinstance(action, Write)
    assert [m.slot for m in action.record.members] == [0, 1, 2, 3]


def test_a_round_that_forms_again_waits_for_nobody_but_the_living() -> None:
    again = changing.opened(sealed(FREE_FOR_ALL, 0, 1, 2), Reason.WORKERS_FAILED)
    here = [held(0, 2), held(1, 2)]
    assert agent.decide(at(again, *here, held(2, 1), me=ALONE)) == Wait(look=True)
    assert isinstance(agent.decide(at(again, *here, held(2, 1, still=101), me=ALONE)), Write)
    assert isinstance(agent.decide(at(again, *here, held(2, 2), me=ALONE)), Write)


def test_all_finished_closes_and_finished_beside_gone_fails() -> None:
    record = sealed(FREE_FOR_ALL, 0, 1)
    done = [held(0, 1, finished=1), held(1, 1, finished=1)]
    end = agent.ending(ALONE, record, {0: done[0], 1: done[1]})
    assert end is not None
    assert end.record.result is Result.SUCCEEDED
    assert agent.ending(ALONE, record, {0: done[0], 1: held(1, 1)}) is None
    half = agent.ending(ALONE, changing.finishing(record), {0: done[0], 1: free(1)})
    assert half is not None
    assert half.record.result is Result.FAILED


def test_whose_slot_holds_a_finish_that_counts_closes_when_all_have_finished() -> None:
    """Else a pod that is started again after the end would wait for ever: nobody else is left to close."""
    record = changing.finishing(sealed(FREE_FOR_ALL, 0, 1))
    done = [held(0, 1, nonce=NONCES[7], finished=1), held(1, 1, finished=1)]
    record = dataclasses.replace(record, members=(Member(0, NONCES[7]), Member(1, NONCES[1])))
    action = agent.decide(at(record, *done, me=ALONE))
    assert isinstance(action, Write)
    assert action.record.result is Result.SUCCEEDED


def test_when_no_member_lives_a_waiter_opens_the_next_round() -> None:
    record = sealed(FREE_FOR_ALL, 1, 2)
    action = agent.decide(at(record, held(0, 2), free(1), held(2, 1, still=101), me=ALONE))
    assert isinstance(action, Write)
    assert (action.record.number, action.record.reason) == (2, Reason.POD_LOST)


def test_newcomers_are_those_who_are_parked_while_there_is_room() -> None:
    record = sealed(FREE_FOR_ALL, 0, 1)
    leases = {0: held(0, 1), 1: held(1, 1), 2: held(2, 2), 3: held(3, 2, still=101)}
    assert agent.newcomers(record, leases, ALONE) == {2}
    assert agent.newcomers(record, leases, dataclasses.replace(ALONE, high=2)) == set()
    assert agent.newcomers(changing.finishing(record), leases, ALONE) == set()
