"""Scenarios 59 to 71: what goes wrong around a node, and ranks. Nodes are processes with a handler each."""

from __future__ import annotations

import datetime as dt
import json
import time
from typing import TYPE_CHECKING

import pytest

from elasticjob_rendezvous import kube
from elasticjob_rendezvous.round import changing, lease
from elasticjob_rendezvous.round.record import KEY, Reason, dump
from support import rendezvous_api, rendezvous_disguises
from support.rendezvous_jobs import until
from support.rendezvous_nodes import Nodes, again, called, meet, met, rendezvous, waiting

if TYPE_CHECKING:
    import pathlib

    from support.rendezvous_api import FakeApi, Request
    from support.rendezvous_jobs import Agents, Job


@pytest.mark.scenario(59)
def test_the_lease_is_renewed_whatever_goes_wrong_in_its_thread(fake: FakeApi, fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0])
    alone = nodes.start(0, prepare=rendezvous_disguises.failing_renewals)
    meet(alone)
    before = fake.count("update", "leases")
    until(lambda: fake.count("update", "leases") >= before + 2, "renewals go on")
    assert "MemoryError" in alone.text()
    assert "ValueError" in alone.text()


@pytest.mark.scenario(60)
def test_a_watch_that_goes_quiet_is_made_up_for(fake: FakeApi, fake_job: Job, nodes: Nodes) -> None:
    """Rank 0 reads for itself what its watches should have told: of the record, and of the newcomers' Leases."""
    alone = nodes.start(0, planned=False, nnodes="1:2", prepare=rendezvous_disguises.quick_reading)
    meet(alone)
    fake.frozen = lambda request: True
    newcomer = nodes.start(1, planned=False, nnodes="1:2", prepare=rendezvous_disguises.quick_reading)
    newcomer.begin(rendezvous)
    called(alone)
    fake.frozen = lambda request: False
    alone.begin(rendezvous)
    met(alone, newcomer)


@pytest.mark.scenario(63)
def test_two_hours_between_the_clocks_change_nothing(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1, 2])
    three = [
        nodes.start(0),
        nodes.start(1, prepare=rendezvous_disguises.an_hour_ahead),
        nodes.start(2, prepare=rendezvous_disguises.an_hour_behind),
    ]
    meet(*three)
    until(lambda: _spread_of_renewals(fake_job) > 7000, "renewed by clocks two hours apart")
    time.sleep(1)  # several beats; by a clock an hour off each is later than any silence allows
    assert [node.call(waiting) for node in three] == [0, 0, 0]
    again(fake_job, *three)


def _spread_of_renewals(job: Job) -> float:
    """Seconds between the earliest and the latest ``renewTime``."""
    found = [body["spec"].get("renewTime") for body in job.api.list(kube.LEASE, {})[0]]
    times = [dt.datetime.fromisoformat(text.replace("Z", "+00:00")) for text in found if text]
    return (max(times) - min(times)).total_seconds() if len(times) == 3 else 0.0


@pytest.mark.parametrize("text", ["}{", "cos\nsystem\n(S'touch /tmp/x'\ntR.", " " * 70_000])
def test_what_cannot_be_read_is_refused_counted_and_repaired_with_a_higher_round(
    fake_job: Job, nodes: Nodes, text: str
) -> None:
    both = nodes.several([0, 1], planned=False, nnodes="2:2")
    meet(*both)
    body = fake_job.api.get(kube.CONFIG_MAP, f"{fake_job.name}-rendezvous")
    assert body is not None
    assert fake_job.api.replace(kube.CONFIG_MAP, {**body, "data": {KEY: text}})
    assert [node.call(waiting) for node in both] == [0, 0], "training goes on"
    assert {world.number for world in meet(*both)} == {2}
    assert all("refused: ConfigMap" in node.text() for node in both)


def test_a_record_of_a_version_to_come_is_left_alone(fake_job: Job, nodes: Nodes) -> None:
    record = changing.started(fake_job.uid, ())
    text = json.dumps({**json.loads(dump(record)), "version": 2, "phase": "Paused"})
    name = f"{fake_job.name}-rendezvous"
    metadata = {"name": name, "labels": {lease.JOB_LABEL: fake_job.name}}
    written = fake_job.api.create(kube.CONFIG_MAP, {"metadata": metadata, "data": {KEY: text}})
    both = nodes.several([0, 1], planned=False, nnodes="2:2")
    for node in both:
        node.begin(rendezvous)
    until(lambda: all("version 2, and 1 is understood here" in node.text() for node in both), "they say so")
    assert fake_job.api.get(kube.CONFIG_MAP, name) == written
    assert fake_job.api.replace(kube.CONFIG_MAP, {**(written or {}), "data": {KEY: dump(record)}})
    assert {world.number for world in met(*both)} == {1}


@pytest.mark.scenario(66)
def test_half_of_the_nodes_without_the_api_form_nothing(
    fake: FakeApi, fake_job: Job, nodes: Nodes, tmp_path: pathlib.Path
) -> None:
    fake_job.plan(range(6), most=6)
    six = [
        nodes.start(
            slot,
            nnodes="3:6",
            fence="2",
            silence="2",
            check_in="4",
            kubeconfig=rendezvous_api.kubeconfig(tmp_path / f"c{slot}", fake_job.api.host, client=f"client-{slot}"),
        )
        for slot in range(6)
    ]
    meet(*six)

    def cut(request: Request) -> None:
        if request.client in ("client-3", "client-4", "client-5"):
            raise ConnectionResetError

    fake.disturb = cut
    connected, cut_off = six[:3], six[3:]
    called(*cut_off)
    for node in cut_off:
        node.begin(rendezvous)
    called(*connected)
    assert [w.size for w in meet(*connected)] == [3, 3, 3]
    assert not any(node.answered() for node in cut_off)
    fake.disturb = lambda request: None
    number = fake_job.record().number
    until(lambda: [fake_job.arrived().get(slot) for slot in (3, 4, 5)] == [number + 1] * 3, "parked")
    fake_job.change(lambda r: changing.opened(r, Reason.NODE_JOINED))
    called(*connected)
    for node in connected:
        node.begin(rendezvous)
    assert {w.number for w in met(*six)} == {number + 1}


@pytest.mark.scenario(67)
def test_ranks_follow_the_slots_numbers_and_not_their_names(nodes: Nodes) -> None:
    twelve = nodes.several(range(12), planned=False, nnodes="12:12")
    assert [world.rank for world in meet(*twelve)] == list(range(12))


@pytest.mark.scenario(69)
def test_nodes_may_have_different_numbers_of_workers(fake_job: Job, fake_agents: Agents) -> None:
    fake_job.plan([0, 1])
    both = [fake_agents.start(0, processes="1"), fake_agents.start(1, processes="3")]
    fake_agents.order("finish")
    assert [agent.wait() for agent in both] == [0, 0]
    ranks = [(step["rank"], step["world"]) for agent in both for step in agent.first_steps()]
    assert sorted(ranks) == [(rank, 4) for rank in range(4)]


@pytest.mark.scenario(70)
@pytest.mark.parametrize("indexes", [(3, 1, 2, 0), (0, 1, 1, 0)])
def test_an_index_is_the_rank_where_nobody_else_has_it(nodes: Nodes, indexes: tuple[int, ...]) -> None:
    four = nodes.several(indexes, planned=False, nnodes="4:4")
    ranks = [world.rank for world in meet(*four)]
    if len(set(indexes)) == 4:
        assert ranks == list(indexes)
    else:
        assert sum("is another pod's" in node.text() for node in four) >= 2
