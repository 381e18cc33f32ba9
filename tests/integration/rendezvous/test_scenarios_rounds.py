"""Scenarios 27 to 46: new rounds, restarts, scaling. Nodes are processes with a handler each, without workers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Phase, Reason, Result
from support import rendezvous_api, rendezvous_jobs
from support.rendezvous_jobs import until
from support.rendezvous_nodes import (
    Nodes,
    Raised,
    again,
    called,
    closed,
    fail,
    finish,
    meet,
    met,
    rendezvous,
    unused,
    use,
    waiting,
)

if TYPE_CHECKING:
    import pathlib

    from support.rendezvous_api import FakeApi, Request
    from support.rendezvous_jobs import Job


@pytest.mark.scenario(27)
def test_workers_of_a_round_find_nothing_of_the_one_before(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1])
    both = nodes.several([0, 1])
    meet(*both)
    for number in range(2, 8):
        assert [node.call(unused) for node in both] == [True, True]
        both[number % 2].call(use)
        assert again(fake_job, *both)[0].number == number


@pytest.mark.scenario(29)
def test_rank_0_may_be_a_newcomer_or_be_lost(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([1, 2], most=3)
    one, two = nodes.several([1, 2])
    meet(one, two)
    fake_job.change(lambda r: changing.amended(r, plan={0, 1, 2}, absent={0}))
    first = nodes.start(0)
    first.begin(rendezvous)
    until(lambda: fake_job.arrived().get(0) == 2, "parked")
    fake_job.change(lambda r: changing.opened(r, Reason.RESIZED))
    called(one, two)
    for node in (one, two):
        node.begin(rendezvous)
    assert [w.rank for w in met(first, one, two)] == [0, 1, 2]
    first.kill()
    called(one, two)
    assert [w.rank for w in meet(one, two)] == [0, 1]


@pytest.mark.scenario(30)
def test_restarts_of_one_node_alone_are_the_groups_rounds(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1])
    stable, failing = nodes.several([0, 1])
    meet(stable, failing)
    for number in (2, 3, 4):  # before the last one it waits for longer than a node may be silent
        failing.begin(rendezvous)  # without having been called: its workers failed
        called(stable)
        stable.begin(rendezvous)
        assert met(stable, failing)[0].number == number
    assert (fake_job.record().reason, fake_job.record().failures) == (Reason.WORKERS_FAILED, 3)


@pytest.mark.scenario(33)
def test_a_replacement_forms_the_group_again_where_all_are_needed(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1])
    stays, goes = nodes.several([0, 1], nnodes="2:2")
    meet(stays, goes)
    goes.kill()
    called(stays)
    stays.begin(rendezvous)
    assert not stays.answered(0.5)
    fake_job.free(1)
    new = nodes.start(1, nnodes="2:2")
    new.begin(rendezvous)
    met(stays, new)


@pytest.mark.scenario(34)
def test_a_dead_peer_is_told_to_workers_that_wait_for_nothing(nodes: Nodes) -> None:
    three = nodes.several([0, 1, 2], planned=False, nnodes="1:4")
    meet(*three)
    three[1].kill()
    called(three[0], three[2])
    meet(three[0], three[2])


@pytest.mark.scenario(37)
def test_a_second_wave_is_one_more_round_for_all(nodes: Nodes) -> None:
    first = nodes.several([0, 1, 2, 3], planned=False, nnodes="3:6")
    meet(*first)
    second = nodes.several([4, 5], planned=False, nnodes="3:6")
    for node in second:
        node.begin(rendezvous)
    called(*first)
    for node in first:
        node.begin(rendezvous)
    assert met(*first, *second)[0].number == 2


@pytest.mark.scenario(39)
def test_a_node_that_fails_for_good_closes_nothing(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1, 2])
    *others, bad = nodes.several([0, 1, 2], nnodes="2:3")
    meet(*others, bad)
    bad.call(fail)
    called(*others)
    meet(*others)
    assert fake_job.record().phase is Phase.SEALED
    assert fake_job.leases()[2].lease.free


@pytest.mark.scenario(40)
def test_restarts_close_nothing(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1])
    both = nodes.several([0, 1])
    meet(*both)
    for _ in range(3):
        again(fake_job, *both)
        assert [node.call(closed) for node in both] == [False, False]


@pytest.mark.scenario(41)
def test_a_job_that_is_declared_failed_ends_everybody_at_once(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1])
    inside = nodes.several([0, 1])
    meet(*inside)
    waits = nodes.start(2)
    fake_job.change(lambda r: changing.amended(r, plan={0, 1, 2}, absent={2}))
    waits.begin(rendezvous)
    until(lambda: fake_job.arrived().get(2) == 2, "parked")
    fake_job.change(lambda r: changing.closed(r, Result.FAILED, "TooManyFailures: 11 failures"))
    with pytest.raises(Raised, match=r"RendezvousClosedError: the job has failed \(round 1\): TooManyF"):
        waits.result()
    called(*inside)
    assert all(node.call(closed) for node in inside)
    for node in inside:
        with pytest.raises(Raised, match="RendezvousClosedError"):
            node.call(rendezvous)


@pytest.mark.scenario(42)
@pytest.mark.parametrize("planned", [True, False])
def test_a_new_run_under_an_old_name_starts_clean(
    fake_job: Job,
    nodes: Nodes,
    tmp_path: pathlib.Path,
    planned: bool,  # noqa: FBT001 - a table's column
) -> None:
    if planned:
        fake_job.plan([0, 1])
    old = nodes.several([0, 1], planned=planned, nnodes="2:2")
    meet(*old)
    for node in old:
        node.begin(finish)
    for node in old:
        node.result()
    if planned:
        fake_job.forget()
    (tmp_path / "new").mkdir()
    job = rendezvous_jobs.Job(fake_job.kubeconfig, fake_job.name)
    after = Nodes(job.plan([0, 1]) if planned else job, tmp_path / "new")
    try:
        assert meet(*after.several([0, 1], planned=planned, nnodes="2:2"))[0].number == 1
    finally:
        after.close()


@pytest.mark.scenario(43)
def test_a_whole_job_that_was_killed_forms_again(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1])
    dead = [nodes.start(slot, pod=f"pod-{slot}") for slot in (0, 1)]
    meet(*dead)
    for node in dead:
        node.kill()
    assert meet(*(nodes.start(slot, pod=f"pod-{slot}") for slot in (0, 1)))[0].number == 2


@pytest.mark.scenario(46)
def test_a_node_that_comes_and_goes_does_not_keep_the_others_from_training(fake_job: Job, nodes: Nodes) -> None:
    stable = nodes.several([0, 1], planned=False, nnodes="2:3", last_call_timeout="6")
    meet(*stable)
    nonce = ""
    for _ in range(2):
        flapping = nodes.start(2, planned=False, nnodes="2:3", pod="pod-2")
        flapping.begin(rendezvous)
        nonce = until(lambda last=nonce: _parked(fake_job, 2, last), "parked")  # type: ignore[misc]
        flapping.kill()
        time.sleep(3.5)  # longer than newcomers are made to wait, half of a last call: nobody lives when that is over
        assert [node.call(waiting) for node in stable] == [0, 0], "who is gone already is not let in"
    assert fake_job.record().number == 1
    steady = nodes.start(2, planned=False, nnodes="2:3", pod="pod-2")
    steady.begin(rendezvous)
    called(*stable)
    for node in stable:
        node.begin(rendezvous)
    met(*stable, steady)


def test_a_member_that_does_not_know_that_it_has_arrived_finds_out(
    fake: FakeApi, fake_job: Job, nodes: Nodes, tmp_path: pathlib.Path
) -> None:
    """The reply to its arrival is lost, and only when the round has been sealed on it."""
    fake_job.plan([0, 1])
    late = rendezvous_api.kubeconfig(tmp_path / "late", fake_job.api.host, client="late")
    both = [nodes.start(0), nodes.start(1, kubeconfig=late)]
    meet(*both)

    def lose(request: Request) -> None:
        if request.client == "late" and request.verb == "update" and fake_job.arrived().get(1) == 2:
            fake.disturb_reply = lambda request: None
            fake_job.sealed(2, nodes=2)
            raise ConnectionResetError

    fake.disturb_reply = lose
    assert again(fake_job, *both)[0].number == 2


def _parked(job: Job, slot: int, last: str) -> str:
    """The nonce of another process than *last* in *slot* that waits for the second round."""
    seen = job.leases().get(slot)
    return seen.lease.nonce if seen and seen.lease.arrived == 2 and seen.lease.nonce != last else ""
