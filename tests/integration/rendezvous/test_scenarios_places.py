"""Scenarios 16 to 26: who a node is and where it is reached. All nodes are on one machine, as on a host's network."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING

import pytest

from elasticjob_rendezvous import meeting, stores
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Member
from support import rendezvous_disguises
from support.rendezvous_jobs import PATIENCE
from support.rendezvous_nodes import Nodes, meet

if TYPE_CHECKING:
    from elasticjob_rendezvous.round.record import Record
    from support.rendezvous_jobs import Job


@pytest.mark.scenario(16)
@pytest.mark.parametrize("pod", ["uid-{}", ""])
def test_the_same_host_name_and_process_number_are_two_nodes(nodes: Nodes, pod: str) -> None:
    """With the pod's UID, and without anything that tells one pod from another."""
    options = {"planned": False, "nnodes": "2:2", "prepare": rendezvous_disguises.same_machine}
    meet(*(nodes.start(None, pod=pod.format(number), **options) for number in range(2)))  # type: ignore[arg-type]


@pytest.mark.scenario(17)
def test_a_name_that_nobody_can_look_up_is_not_advertised(nodes: Nodes) -> None:
    options = {"planned": False, "nnodes": "2:2", "prepare": rendezvous_disguises.nobodys_name}
    worlds = meet(*(nodes.start(None, address=None, **options) for _ in range(2)))  # type: ignore[arg-type]
    assert ipaddress.ip_address(worlds[0].address)


@pytest.mark.scenario(19)
def test_ipv6_alone_is_enough(nodes: Nodes) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    worlds = meet(*nodes.several([None] * 2, planned=False, nnodes="2:2", address="::1"))
    assert worlds[0].address == "::1", "bare, as MASTER_ADDR wants it"


@pytest.mark.scenario(21)
def test_a_given_address_is_taken_verbatim(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1, 2])
    worlds = meet(*(nodes.start(slot, address=f"127.0.0.{slot + 2}") for slot in range(3)))
    assert {w.address for w in worlds} == {"127.0.0.2"}


@pytest.mark.scenario(22)
def test_a_pod_that_comes_back_elsewhere_is_found_there(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1])
    first, second = nodes.start(0, address="127.0.0.2", nnodes="2:2"), nodes.start(1, nnodes="2:2")
    meet(first, second)
    first.kill()
    fake_job.free(0)
    back = nodes.start(0, address="127.0.0.9", nnodes="2:2")
    assert {w.address for w in meet(back, second)} == {"127.0.0.9"}


@pytest.mark.scenario(23)
def test_names_that_resolve_late_are_waited_for(nodes: Nodes) -> None:
    options = {"planned": False, "nnodes": "2:2", "prepare": rendezvous_disguises.late_names}
    meet(*(nodes.start(None, address=None, **options) for _ in range(2)))  # type: ignore[arg-type]


@pytest.mark.scenario(24)
def test_no_endpoint_is_needed_for_nobody_hosts_anything(nodes: Nodes) -> None:
    meet(*nodes.several([None] * 2, planned=False, nnodes="2:2", endpoint="", run_id="digits-7"))


@pytest.mark.scenario(26)
def test_no_port_is_taken_twice_in_fifty_rounds_of_two_jobs() -> None:
    """Ports are the kernel's choice, and a store that is bound stays bound until it is no longer needed."""
    for number in range(1, 51):
        jobs = [[stores.bind("127.0.0.1") for _ in range(2)] for _ in range(2)]
        assert len({server.port for servers in jobs for server in servers}) == 4
        for servers in jobs:
            where = [stores.joined("127.0.0.1", server.port) for server in servers]
            record = changing.started("job", (0, 1), number=number)
            record = changing.sealed(record, [Member(0, "0000000a"), Member(1, "0000000b")], where[0])
            check_in(record, where, servers)


def check_in(record: Record, where: list[str], servers: list[stores.TCPStore]) -> None:
    """Both members of a round check in; their workers meet at the store that is bound already."""
    attempts = [
        meeting.Attempt(meeting.Place(record, rank, where[rank]), None if rank else servers[0]) for rank in (0, 1)
    ]
    for each in attempts:
        each.start()
    assert all(each.done.wait(PATIENCE) for each in attempts)
    assert {each.place.port for each in attempts} == {servers[0].port}
    for each in attempts:
        each.stop()
        each.join(PATIENCE)
