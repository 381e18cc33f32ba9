"""What a node says when its surroundings or its parameters are wrong, and what it refuses to believe."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from typing import TYPE_CHECKING

import pytest

from elasticjob_rendezvous import seat
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Reason
from support import rendezvous_api, rendezvous_disguises
from support.rendezvous_jobs import until
from support.rendezvous_nodes import Nodes, Raised, again, called, meet, met, rendezvous, waiting

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from support.rendezvous_api import FakeApi, Request
    from support.rendezvous_jobs import Agents, Job


def test_missing_rights_are_named(fake: FakeApi, nodes: Nodes) -> None:
    def refuse(request: Request) -> None:
        raise rendezvous_api.Refused(403, "no")

    fake.disturb = refuse
    node = nodes.start(0, planned=False, prepare=rendezvous_disguises.impatient)
    with pytest.raises(Raised, match=r"RendezvousConnectionError: .* is forbidden: a Role must allow verb watch on"):
        node.call(rendezvous)
    assert "must allow verb watch" in node.text()


def test_an_api_server_that_is_not_there_is_told(nodes: Nodes, tmp_path: pathlib.Path) -> None:
    nowhere = rendezvous_api.kubeconfig(tmp_path / "nowhere", "http://127.0.0.1:9")
    node = nodes.start(0, planned=False, kubeconfig=nowhere, prepare=rendezvous_disguises.impatient)
    with pytest.raises(Raised, match=r"RendezvousConnectionError: no API server within 1 s, is its address right"):
        node.call(rendezvous)


def test_no_way_to_an_api_server_is_told_at_once(nodes: Nodes) -> None:
    node = nodes.start(0, planned=False, kubeconfig="/nowhere/config")
    with pytest.raises(Raised, match=r"RendezvousConnectionError: no way to the Kubernetes API.*kubeconfig=FILE"):
        node.call(rendezvous)


def test_with_an_operator_rights_and_servers_are_waited_for(fake: FakeApi, fake_job: Job, nodes: Nodes) -> None:
    def away(request: Request) -> None:
        raise rendezvous_api.Refused(503, "etcd is restarting")

    fake_job.plan([0, 1])
    fake.disturb = away
    both = nodes.several([0, 1], prepare=rendezvous_disguises.impatient)
    for node in both:
        node.begin(rendezvous)
    assert not any(node.answered(1.5) for node in both)
    fake.disturb = lambda request: None
    met(*both)


def unavailable(request: Request) -> None:
    raise rendezvous_api.Refused(503, "etcd is restarting")


def dropped(request: Request) -> None:
    raise ConnectionResetError


def hanging(request: Request) -> None:
    time.sleep(2)


@pytest.mark.parametrize("trouble", [unavailable, dropped, hanging])
def test_no_trouble_with_the_api_server_ends_a_round(
    fake: FakeApi, fake_job: Job, nodes: Nodes, trouble: Callable[[Request], None]
) -> None:
    fake_job.plan([0, 1])
    both = nodes.several([0, 1], heartbeat_timeout="0.5")
    meet(*both)
    fake.disturb, before = trouble, fake.count()
    until(lambda: fake.count() >= before + 6, "tried again and again")
    assert [node.call(waiting) for node in both] == [0, 0]
    fake.disturb, before = lambda request: None, fake.count("update", "leases")
    until(lambda: fake.count("update", "leases") >= before + 4, "renewals go on")
    assert [node.call(waiting) for node in both] == [0, 0]
    assert fake_job.record().number == 1


def test_two_processes_of_one_identity_are_told_apart_at_once(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1])
    first, other = nodes.start(0, pod="pod-0"), nodes.start(1)
    meet(first, other)
    twin = nodes.start(0, pod="pod-0")
    with pytest.raises(
        Raised, match=r"RendezvousStateError: two processes with one identity: slot 0 .*Run one torchrun"
    ):
        twin.call(rendezvous)
    again(fake_job, first, other)


def test_a_slot_that_is_taken_over_ends_its_former_holder(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1])
    first, other = nodes.several([0, 1])
    meet(first, other)
    thief = seat.Seat(
        fake_job.api, job_name=fake_job.name, job=fake_job.uid, slot=1, pod="p", nonce="0000000a", limit=9
    )
    thief.read()
    assert thief.take(2, "127.0.0.1:1")
    called(other)
    with pytest.raises(Raised, match=r"RendezvousStateError: slot 1 was taken over by another process"):
        other.call(rendezvous)
    assert fake_job.leases()[1].lease.nonce == "0000000a", "what is another's is not released"


def test_a_record_that_went_back_is_refused_and_superseded(fake_job: Job, nodes: Nodes) -> None:
    both = nodes.several([0, 1], planned=False, nnodes="2:2")
    meet(*both)
    again(fake_job, *both)
    fake_job.change(lambda r: dataclasses.replace(r, number=1, sealed=1))
    until(lambda: all("went back to round 1 after 2" in node.text() for node in both), "refused")
    assert {world.number for world in meet(*both)} == {3}


def test_another_runs_name_is_waited_for(fake_job: Job, nodes: Nodes) -> None:
    these = nodes.several([0, 1], planned=False, nnodes="2:2")
    meet(*these)
    other = nodes.start(0, planned=False, nnodes="1:2", run_id="another", join_timeout="1")
    with pytest.raises(Raised, match=r"Rendezvous\w+Error: .* belongs to another job"):
        other.call(rendezvous)
    assert "Give each run a name of its own" in other.text()
    again(fake_job, *these)


def test_torchs_event_log_has_the_story(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1])
    both = nodes.several([0, 1], prepare=rendezvous_disguises.event_log)
    meet(*both)
    again(fake_job, *both)
    fake_job.change(lambda r: changing.opened(r, Reason.RESIZED, plan={0}))
    called(*both)
    both[0].begin(rendezvous)
    with pytest.raises(Raised, match="SystemExit: 0"):
        both[1].call(rendezvous)
    both[0].result()
    events = [json.loads(line) for line in re.findall(r"^\{.*\}$", both[0].text(), re.MULTILINE)]
    assert [event["message"] for event in events if event["rank"] == 0 and "joined" in event["message"]] == [
        "joined round 1, nodes: 2",
        "joined round 2, nodes: 2",
        "joined round 3, nodes: 1",
    ]
    assert {event["name"].rpartition(":")[2] for event in events} == {
        "KubernetesRendezvousHandler.next_rendezvous",
        "KubernetesRendezvousHandler.num_nodes_waiting",
    }
    assert {(event["run_id"], event["node_state"]) for event in events} == {(fake_job.uid, "RUNNING")}


@pytest.mark.parametrize("shared", ["True", "False"])
def test_torchs_switch_decides_where_workers_meet(fake_job: Job, fake_agents: Agents, shared: str) -> None:
    fake_job.plan([0, 1])
    switch = "1" if shared == "False" else "0"
    both = [fake_agents.start(slot, TORCH_DISABLE_SHARE_RDZV_TCP_STORE=switch) for slot in (0, 1)]
    for agent in both:
        agent.trains(1, world=2)
    store = fake_job.record().store
    fake_agents.order("finish")
    assert [agent.wait() for agent in both] == [0, 0]
    found = {re.findall(r"MEETS at=(\S+) agent_store=(\S+)", agent.text())[0] for agent in both}
    assert len(found) == 1, "all at the same place"
    ((where, told),) = found
    assert told == shared
    assert (where == store) is (shared == "True")


@pytest.mark.parametrize(
    ("conf", "message"),
    [("silense=3", "--rdzv-conf: unknown silense; known: address"), ("silence=soon", "wanted is a number of seconds")],
)
def test_torchrun_ends_at_once_with_what_is_wrong(fake_agents: Agents, conf: str, message: str) -> None:
    agent = fake_agents.start(0, conf=conf)
    assert agent.wait() == 1
    assert f"ValueError: {message.split(';', maxsplit=1)[0]}" in agent.text() or message in agent.text()
