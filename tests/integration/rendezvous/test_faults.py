"""Real torchrun agents when something goes wrong around them: the API server, the network, a signal, the objects.

Against the fake API server, which can be disturbed on command.
"""

from __future__ import annotations

import collections
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from elasticjob_rendezvous import kube
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import KEY, Phase, Reason
from support import rendezvous_api
from support.rendezvous_jobs import PATIENCE, until

if TYPE_CHECKING:
    import pathlib

    from support.rendezvous_api import FakeApi, Request
    from support.rendezvous_jobs import Agents, Job

QUICK = "beat_interval=0.5,silence=60,check_in=60,renew_interval=1"
"""Nobody is taken for dead because the machine is busy: who was killed is found out by its closed connections."""

ALERT = "beat_interval=0.5,renew_interval=1"
"""With the silence that users have: for those whose connections stay open though they stand still."""


def config(tmp_path: pathlib.Path, job: Job, client: str) -> str:
    """A kubeconfig by which the server tells one agent's requests from the others'."""
    return rendezvous_api.kubeconfig(tmp_path / client, job.api.host, client=client)


def unavailable(request: Request) -> None:
    raise rendezvous_api.Refused(503, "etcd is restarting", Retry_After="1")


@pytest.mark.scenario(58)
def test_training_outlasts_an_api_server_that_is_away(fake: FakeApi, fake_job: Job, fake_agents: Agents) -> None:
    fake_job.plan([0, 1])
    both = [fake_agents.start(slot, conf=QUICK) for slot in (0, 1)]
    for a in both:
        a.trains(1, world=2)
    fake.disturb = unavailable
    before = fake.count()
    time.sleep(6)
    assert fake.count() - before < 6 * 2 * 3, "no busy loop"
    fake.disturb = lambda request: None
    seen = fake_job.leases()[0].lease.progress
    until(lambda: fake_job.leases()[0].lease.progress != seen, "renewals go on")
    assert fake_job.record().number == 1
    fake_agents.order("finish")
    assert [a.wait() for a in both] == [0, 0]


def waits(job: Job, slot: int) -> int:
    """Waits until a slot's holder waits for the next round; its number."""

    def next_() -> int | None:
        number = job.record().number + 1
        return number if job.leases()[slot].lease.arrived == number else None

    return int(until(next_, f"slot {slot} waits for the next round"))


def test_who_is_cut_off_stops_its_workers_and_comes_back(
    fake: FakeApi, fake_job: Job, fake_agents: Agents, tmp_path: pathlib.Path
) -> None:
    fake_job.plan([0, 1, 2])
    quick = f"{ALERT},fence=4"
    three = [
        fake_agents.start(slot, conf=quick, kubeconfig=config(tmp_path, fake_job, f"client-{slot}"))
        for slot in (0, 1, 2)
    ]
    for a in three:
        a.trains(1, world=3)

    def cut(request: Request) -> None:
        if request.client == "client-1":
            raise ConnectionResetError

    fake.disturb = cut
    fake_job.sealed(2, nodes=2)
    for a in (three[0], three[2]):
        a.trains(2, world=2)
    fake.disturb = lambda request: None
    next_ = waits(fake_job, 1)
    fake_job.change(lambda r: changing.opened(r, Reason.NODE_JOINED))
    for a in three:
        a.trains(next_, world=3)
    fake_agents.order("finish")
    assert [a.wait() for a in three] == [0, 0, 0]


def test_silent_member_is_left_behind(fake_job: Job, fake_agents: Agents) -> None:
    fake_job.plan([0, 1, 2])
    three = [fake_agents.start(slot, conf=ALERT) for slot in (0, 1, 2)]
    for a in three:
        a.trains(1, world=3)
    stopped = three[1].tree()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    record = fake_job.sealed(2, nodes=2)
    assert record.reason is Reason.PEER_SILENT
    for a in (three[0], three[2]):
        a.trains(2, world=2)
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    waits(fake_job, 1)
    fake_agents.order("finish")
    assert [a.wait() for a in (three[0], three[2])] == [0, 0]


def test_silent_rank_0_is_left_behind(fake_job: Job, fake_agents: Agents) -> None:
    fake_job.plan([0, 1, 2])
    three = [fake_agents.start(slot, conf=ALERT) for slot in (0, 1, 2)]
    for a in three:
        a.trains(1, world=3)
    for pid in three[0].tree():
        os.kill(pid, signal.SIGSTOP)
    record = fake_job.sealed(2, nodes=2)
    assert record.reason is Reason.PEER_SILENT
    for a in three[1:]:
        a.trains(2, world=2)
    fake_agents.order("finish")
    assert [a.wait() for a in three[1:]] == [0, 0]


def test_quiet_watch_is_made_up_for_by_the_peers(
    fake: FakeApi, fake_job: Job, fake_agents: Agents, tmp_path: pathlib.Path
) -> None:
    fake_job.plan([0, 1])
    both = [fake_agents.start(s, conf=ALERT, kubeconfig=config(tmp_path, fake_job, f"client-{s}")) for s in (0, 1)]
    for a in both:
        a.trains(1, world=2)
    fake.frozen = lambda request: request.client == "client-1"
    fake_job.change(lambda r: changing.opened(r, Reason.RESIZED))
    for a in both:
        a.trains(2, world=2)
    fake_agents.order("finish")
    assert [a.wait() for a in both] == [0, 0]


def test_lost_replies_are_recognised(fake: FakeApi, fake_job: Job, fake_agents: Agents, tmp_path: pathlib.Path) -> None:
    """Every other reply to each agent's writes of each kind: two that write by turns would else lose all of one's."""
    writes: collections.Counter[tuple[str, str]] = collections.Counter()

    def lose_every_other(request: Request) -> None:
        if request.verb == "update" and request.client.startswith("client-"):
            writes[request.client, request.kind] += 1
            if writes[request.client, request.kind] % 2:
                raise ConnectionResetError

    fake_job.plan([0, 1])
    fake.disturb_reply = lose_every_other
    both = [fake_agents.start(s, conf=QUICK, kubeconfig=config(tmp_path, fake_job, f"client-{s}")) for s in (0, 1)]
    for a in both:
        a.trains(1, world=2)
    fake_agents.order("crash-0")
    for a in both:
        a.trains(2, world=2)
    record = fake_job.record()
    assert (record.number, record.failures) == (2, 1), "one round for one failure"
    assert {kind for _, kind in writes} == {"configmaps", "leases"}, "some of both kinds are lost"
    fake_agents.order("finish")
    assert [a.wait() for a in both] == [0, 0]


def test_sigterm_in_the_first_rendezvous_frees_the_slot(fake_job: Job, fake_agents: Agents) -> None:
    fake_job.plan([0, 1])
    lonely = fake_agents.start(0, nnodes="2:2")
    until(lambda: fake_job.leases()[0].lease.arrived == 1, "slot 0 arrived")
    lonely.process.terminate()
    assert lonely.wait() == 128 + signal.SIGTERM
    assert fake_job.leases()[0].lease.free
    assert fake_job.leases()[0].lease.left, "its loss can be counted"
    assert fake_job.record().absent == {0}


@pytest.mark.scenario(57)
def test_slow_workers_do_not_hold_up_the_others(fake_job: Job, fake_agents: Agents) -> None:
    fake_job.plan([0, 1, 2])
    fake_agents.order("slow-2")
    three = [fake_agents.start(slot, conf=QUICK, grace=PATIENCE) for slot in (0, 1, 2)]
    for a in three:
        a.trains(1, world=3)
    three[2].process.terminate()
    fake_job.sealed(2, nodes=2)
    assert fake_job.record().reason is Reason.AGENT_LEFT
    assert not fake_job.leases()[2].lease.free, "its workers may still train: the slot is not free yet"
    fake_agents.withdraw("slow-2")
    holder = fake_job.leases()[2].lease.pod
    three[2].wait()
    assert (fake_job.leases()[2].lease.free, fake_job.leases()[2].lease.left) == (True, holder)
    fake_agents.order("finish")
    for a in three[:2]:
        a.trains(2, world=2)
    assert [a.wait() for a in three[:2]] == [0, 0]


@pytest.mark.scenario(48)
def test_rank_0_stays_until_the_last_member_has_finished(fake_job: Job, fake_agents: Agents) -> None:
    fake_job.plan([0, 1])
    fake_agents.order("late-1")
    both = [fake_agents.start(slot, conf=QUICK) for slot in (0, 1)]
    for a in both:
        a.trains(1, world=2)
    fake_agents.order("finish")
    until(lambda: fake_job.leases()[0].lease.finished == 1, "rank 0 recorded its finish")
    assert both[0].process.poll() is None
    fake_agents.withdraw("late-1")
    assert [a.wait() for a in both] == [0, 0]
    assert fake_job.record().phase is Phase.FINISHING
    assert fake_job.leases()[1].lease.finished == 1


def both_renew(fake: FakeApi) -> None:
    """Waits until two agents have renewed their Leases twice: they had time to see what changed, and go on."""
    before = fake.count("update", "leases")
    until(lambda: fake.count("update", "leases") >= before + 4, "renewals go on")


@pytest.mark.scenario(65)
def test_vanished_and_unreadable_records_stop_nobody(fake: FakeApi, fake_job: Job, fake_agents: Agents) -> None:
    fake_job.plan([0, 1])
    both = [fake_agents.start(slot, conf=QUICK) for slot in (0, 1)]
    for a in both:
        a.trains(1, world=2)
    good = fake_job.api.get(kube.CONFIG_MAP, f"{fake_job.name}-rendezvous")
    assert good is not None
    fake.delete("default", "configmaps", f"{fake_job.name}-rendezvous")
    both_renew(fake)
    bad = {"metadata": {"name": f"{fake_job.name}-rendezvous"}, "data": {KEY: "cos\nsystem\n(S'true'\ntR."}}
    fake_job.api.create(kube.CONFIG_MAP, bad)
    both_renew(fake)
    fake.delete("default", "configmaps", f"{fake_job.name}-rendezvous")
    good["metadata"].pop("resourceVersion")
    fake_job.api.create(kube.CONFIG_MAP, good)
    fake_job.change(lambda r: changing.opened(r, Reason.RESIZED))
    for a in both:
        assert a.trains(2, world=2)["round"] == 2
    fake_agents.order("finish")
    assert [a.wait() for a in both] == [0, 0]


def test_standalone_record_is_made_again_with_a_higher_number(
    fake: FakeApi, fake_job: Job, fake_agents: Agents
) -> None:
    conf = f"{QUICK},last_call_timeout=1"
    both = [fake_agents.start(slot, planned=False, nnodes="2:2", conf=conf) for slot in (0, 1)]
    for a in both:
        a.trains(1, world=2)
    fake.delete("default", "configmaps", f"{fake_job.name}-rendezvous")
    fake_agents.order("crash-1")
    for a in both:
        a.trains(2, world=2)
    assert fake_job.record().reason is Reason.STATE_LOST
    fake_agents.order("finish")
    assert [a.wait() for a in both] == [0, 0]


def test_standalone_goes_on_without_a_killed_node(fake_job: Job, fake_agents: Agents) -> None:
    conf = f"{QUICK},last_call_timeout=1"
    three = [fake_agents.start(slot, planned=False, nnodes="2:3", conf=conf, pod=f"pod-{slot}") for slot in (0, 1, 2)]
    for a in three:
        a.trains(1, world=3)
    three[0].kill()
    for a in three[1:]:
        a.trains(2, world=2)
    again = fake_agents.start(0, planned=False, nnodes="2:3", conf=conf, pod="pod-0")
    for a in (again, *three[1:]):
        a.trains(3, world=3)
    fake_agents.order("finish")
    assert [a.wait() for a in (again, *three[1:])] == [0, 0, 0]


def test_join_timeout_ends_one_agent_and_no_job(fake_job: Job, fake_agents: Agents) -> None:
    conf = "join_timeout=3,last_call_timeout=1"
    alone = fake_agents.start(0, planned=False, nnodes="2:3", conf=conf)
    assert alone.wait() == 1
    assert "no round of enough nodes within 3 s: at least 2 are needed" in alone.text()
    both = [fake_agents.start(slot, planned=False, nnodes="2:3", conf="last_call_timeout=1") for slot in (1, 2)]
    for a in both:
        a.trains(1, world=2)
