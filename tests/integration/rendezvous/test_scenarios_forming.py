"""Scenarios 1 to 15: forming a round. Nodes are processes with a handler each; the API server is the fake one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from elasticjob_rendezvous import kube, seat
from elasticjob_rendezvous.round.record import Phase
from support import rendezvous_api, rendezvous_jobs
from support.rendezvous_jobs import PATIENCE, until
from support.rendezvous_nodes import Nodes, Raised, called, finish, meet, met, rendezvous, waiting

if TYPE_CHECKING:
    import pathlib

    from support.rendezvous_api import FakeApi, Request
    from support.rendezvous_jobs import Job


@pytest.mark.scenario(1)
def test_all_nodes_at_once_cost_few_requests_each(fake: FakeApi, nodes: Nodes) -> None:
    size = 16
    refused: list[int] = []
    fake.refusing = refused.append
    everybody = nodes.several([None] * size, planned=False, nnodes=f"{size}:{size}", renew_interval="60")
    meet(*everybody)
    assert refused.count(409) <= 2 * size
    assert fake.count() <= 15 * size


@pytest.mark.scenario(2)
def test_late_nodes_are_taken_in(nodes: Nodes) -> None:
    early = nodes.several([None] * 2, planned=False, nnodes="2:4")
    meet(*early)
    late = nodes.several([None] * 2, planned=False, nnodes="2:4")
    for node in late:
        node.begin(rendezvous)
    called(*early)
    for node in early:
        node.begin(rendezvous)
    assert met(*early, *late)[0].number == 2


@pytest.mark.scenario(3)
def test_who_waits_in_vain_ends_alone_and_leaves_nothing_behind(fake_job: Job, nodes: Nodes) -> None:
    alone = nodes.start(0, planned=False, nnodes="2:3", join_timeout="1")
    with pytest.raises(Raised, match=r"RendezvousTimeoutError: no round of enough nodes within 1 s: at least 2"):
        alone.call(rendezvous)
    assert fake_job.leases()[0].lease.free
    assert fake_job.record().phase is Phase.OPEN
    meet(*nodes.several([1, 2], planned=False, nnodes="2:3"))


@pytest.mark.scenario(4)
@pytest.mark.parametrize("ghost", [0, 1])
def test_who_died_after_arriving_is_left_behind(fake_job: Job, nodes: Nodes, ghost: int) -> None:
    dead = nodes.start(ghost, planned=False, nnodes="3:3", check_in="2")
    dead.begin(rendezvous)
    until(lambda: fake_job.arrived().get(ghost) == 1, "arrived")
    dead.kill()
    living = nodes.several([2, 3], planned=False, nnodes="3:3", check_in="2")
    for node in living:
        node.begin(rendezvous)
    until(lambda: fake_job.record().number > 1, "the ghost is suspected")
    fourth = nodes.start(1 - ghost, planned=False, nnodes="3:3")
    fourth.begin(rendezvous)
    met(*living, fourth)
    assert ghost not in fake_job.record().member_slots


@pytest.mark.scenario(6)
def test_who_is_faster_than_rank_0_waits_for_it(
    fake: FakeApi, fake_job: Job, nodes: Nodes, tmp_path: pathlib.Path
) -> None:
    def slow(request: Request) -> None:
        if request.client == "first" and request.verb == "watch":
            time.sleep(1)

    fake_job.plan([0, 1])
    fake.disturb = slow
    first = nodes.start(0, kubeconfig=rendezvous_api.kubeconfig(tmp_path / "first", fake_job.api.host, client="first"))
    meet(first, nodes.start(1))


@pytest.mark.scenario(9)
def test_more_nodes_than_max_wait_without_disturbing(fake_job: Job, nodes: Nodes) -> None:
    five = nodes.several(range(5), planned=False, nnodes="2:4")
    for node in five:
        node.begin(rendezvous)
    until(lambda: sum(node.answered() for node in five) == 4, "four formed")
    inside = [node for node in five if node.answered()]
    (outside,) = (node for node in five if not node.answered())
    met(*inside)
    until(lambda: 2 in fake_job.arrived().values(), "the fifth is parked")
    assert not outside.answered(1.5)
    assert [node.call(waiting) for node in inside] == [0] * 4


@pytest.mark.scenario(10)
def test_a_spare_ends_well_when_the_job_does(fake_job: Job, nodes: Nodes) -> None:
    both = nodes.several([0, 1], planned=False, nnodes="1:2")
    meet(*both)
    spare = nodes.start(2, planned=False, nnodes="1:2")
    spare.begin(rendezvous)
    until(lambda: fake_job.arrived().get(2) == 2, "parked")
    for node in both:
        node.begin(finish)
    for node in both:
        node.result()
    with pytest.raises(Raised, match="SystemExit: 0"):
        spare.result()
    assert spare.process.wait(PATIENCE) == 0


@pytest.mark.scenario(13)
def test_the_last_call_is_counted_once_whoever_comes_and_goes(fake_job: Job, nodes: Nodes) -> None:
    """Were it counted anew from who comes or goes, a guest's coming and going would keep the round from starting."""
    first = nodes.several([0, 1], planned=False, nnodes="2:4")
    for node in first:
        node.begin(rendezvous)
    guest = seat.Seat(
        fake_job.api, job_name=fake_job.name, job=fake_job.uid, slot=2, pod="guest", nonce="0000000a", limit=60
    )

    def formed() -> bool:
        assert guest.take(1, "127.0.0.1:1")
        guest.release()
        return all(node.answered(0.1) for node in first)

    until(formed, "the round starts")
    met(*first)


@pytest.mark.scenario(14)
def test_two_jobs_with_one_id_are_two_jobs(fake_job: Job, nodes: Nodes, tmp_path: pathlib.Path) -> None:
    (tmp_path / "other").mkdir()
    others = Nodes(rendezvous_jobs.Job(fake_job.kubeconfig, "other"), tmp_path / "other")
    try:
        these = nodes.several([0, 1], planned=False, nnodes="2:2", run_id="run")
        those = others.several([0, 1], planned=False, nnodes="2:2", run_id="run")
        meet(*these)
        meet(*those)
        for node in these:
            node.begin(finish)
        for node in these:
            node.result()
        assert [node.call(waiting) for node in those] == [0, 0]
        assert fake_job.api.get(kube.CONFIG_MAP, "other-rendezvous") is not None
    finally:
        others.close()


@pytest.mark.scenario(15)
def test_a_wanted_size_below_max_is_not_waited_beyond(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1, 2], most=8)
    meet(*nodes.several(range(3), nnodes="1:8", last_call_timeout="3600"))
