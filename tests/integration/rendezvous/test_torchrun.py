"""Real torchrun agents on a real API server: form, grow, lose members, leave, finish. No test sleeps for its result."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from elasticjob_rendezvous.round import agent, changing
from elasticjob_rendezvous.round.record import Phase, Reason, Result
from support.rendezvous_jobs import until

if TYPE_CHECKING:
    from support.rendezvous_jobs import Agents, Job

IPV6 = "::1" if socket.has_ipv6 else "127.0.0.1"


def test_two_nodes_form_train_and_finish(job: Job, agents: Agents) -> None:
    job.plan([0, 1])
    both = [agents.start(slot) for slot in (0, 1)]
    steps = [a.trains(1, world=2) for a in both]
    assert [s["rank"] for s in steps] == [0, 1]

    agents.order("finish")
    assert [a.wait() for a in both] == [0, 0]

    record = job.record()
    assert (record.number, record.phase, record.reason) == (1, Phase.FINISHING, Reason.STARTED)
    assert all(agent.finished(m, record, job.leases()) for m in record.members)


@pytest.mark.scenario(28)
def test_newcomer_waits_until_the_operator_opens_the_round(job: Job, light_agents: Agents) -> None:
    job.plan([0, 1])
    both = [light_agents.start(slot) for slot in (0, 1)]
    for a in both:
        a.trains(1, world=2)

    job.change(lambda r: changing.amended(r, plan={0, 1, 2}, absent={2}))
    third = light_agents.start(2)
    until(lambda: job.leases()[2].lease.arrived == 2, "slot 2 waiting")
    assert job.record().number == 1
    job.change(lambda r: changing.opened(r, Reason.RESIZED))

    assert [a.trains(2, world=3)["rank"] for a in (*both, third)] == [0, 1, 2]
    assert job.record().number == 2
    light_agents.order("finish")
    assert [a.wait() for a in (*both, third)] == [0, 0, 0]


def test_killed_rank_0_is_noticed_at_once(job: Job, agents: Agents) -> None:
    job.plan([0, 1, 2])
    """Without waiting for any time-out: they are longer than this test waits."""
    conf = "silence=3600,check_in=3600,last_call_timeout=3600"
    first, *others = [agents.start(slot, conf=conf) for slot in (0, 1, 2)]
    for a in (first, *others):
        a.trains(1, world=3)

    first.kill()
    record = job.sealed(2, nodes=2)
    assert record.reason in (Reason.PEER_SILENT, Reason.WORKERS_FAILED)
    assert [a.trains(2, world=2)["rank"] for a in others] == [0, 1]
    agents.order("finish")
    assert [a.wait() for a in others] == [0, 0]


def test_crashed_worker_restarts_the_round(job: Job, agents: Agents) -> None:
    job.plan([0, 1])
    both = [agents.start(slot, address=IPV6) for slot in (0, 1)]
    for a in both:
        a.trains(1, world=2)

    agents.order("crash-1")
    for a in both:
        a.trains(2, world=2)
    record = job.record()
    assert (record.number, record.reason, record.failures) == (2, Reason.WORKERS_FAILED, 1)
    failure = job.leases()[1].lease.failure
    assert failure is not None
    assert (failure.exit_code, failure.message) == (3, "told to crash"), "what a plain script says last"
    failure = job.leases()[1].lease.failure
    assert failure is not None
    assert (failure.round, failure.exit_code) == (1, 3)
    agents.order("finish")
    assert [a.wait() for a in both] == [0, 0]


@pytest.mark.scenario(35)
def test_sigterm_leaves_and_the_others_go_on(job: Job, light_agents: Agents) -> None:
    job.plan([0, 1, 2])
    three = [light_agents.start(slot) for slot in (0, 1, 2)]
    for a in three:
        a.trains(1, world=3)

    three[1].process.terminate()
    until(lambda: job.record().number == 2, "the others are told")
    record = job.sealed(2, nodes=2)
    assert record.reason is Reason.AGENT_LEFT
    for a in (three[0], three[2]):
        a.trains(2, world=2)
    assert three[1].wait() != 0
    assert job.leases()[1].lease.free
    light_agents.order("finish")
    assert [a.wait() for a in (three[0], three[2])] == [0, 0]


def test_slot_that_is_no_longer_planned_ends_with_0(job: Job, light_agents: Agents) -> None:
    job.plan([0, 1])
    both = [light_agents.start(slot) for slot in (0, 1)]
    for a in both:
        a.trains(1, world=2)

    job.change(lambda r: changing.opened(r, Reason.RESIZED, plan={0}))
    assert both[1].wait() == 0
    assert (job.leases()[1].lease.free, job.leases()[1].lease.left) == (True, "")
    both[0].trains(2, world=1)
    light_agents.order("finish")
    assert both[0].wait() == 0


def test_standalone_forms_grows_and_closes(job: Job, light_agents: Agents) -> None:
    both = [light_agents.start(planned=False, nnodes="2:3", conf="last_call_timeout=1") for _ in range(2)]
    for a in both:
        a.trains(1, world=2)
    third = light_agents.start(planned=False, nnodes="2:3", conf="last_call_timeout=1")
    for a in (*both, third):
        a.trains(2, world=3)
    assert job.record().reason is Reason.NODE_JOINED

    light_agents.order("finish")
    assert [a.wait() for a in (*both, third)] == [0, 0, 0]
    record = job.record()
    assert (record.phase, record.result) == (Phase.CLOSED, Result.SUCCEEDED)
    late = light_agents.start(planned=False, nnodes="2:3")
    assert late.wait() == 0
