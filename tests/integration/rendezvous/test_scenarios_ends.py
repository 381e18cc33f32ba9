"""Scenarios 47 to 57: the end of a job, and signals. See docs/rendezvous-scenarios.md for those played elsewhere."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from elasticjob_rendezvous import kube
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Result
from support import rendezvous_disguises
from support.rendezvous_jobs import PATIENCE, until
from support.rendezvous_nodes import Nodes, Raised, again, barrier, called, finish, meet, rendezvous, waiting

if TYPE_CHECKING:
    from support.rendezvous_api import FakeApi
    from support.rendezvous_jobs import Job


@pytest.mark.scenario(47)
@pytest.mark.parametrize("planned", [True, False])
def test_who_comes_after_the_success_ends_well(
    fake_job: Job,
    nodes: Nodes,
    planned: bool,  # noqa: FBT001 - a table's column
) -> None:
    if planned:
        fake_job.plan([0, 1])
    both = nodes.several([0, 1], planned=planned, nnodes="2:3")
    meet(*both)
    for node in both:
        node.begin(finish)
    for node in both:
        node.result()
    if planned:
        fake_job.change(lambda r: changing.closed(r, Result.SUCCEEDED))
    late = nodes.start(2, planned=planned, nnodes="2:3")
    with pytest.raises(Raised, match="SystemExit: 0"):
        late.call(rendezvous)
    assert late.process.wait(PATIENCE) == 0


@pytest.mark.scenario(49)
def test_the_store_outlives_torchs_exit_barrier(fake_job: Job, nodes: Nodes) -> None:
    fake_job.plan([0, 1])
    first, slow = (nodes.start(slot, prepare=rendezvous_disguises.short_barrier) for slot in (0, 1))
    meet(first, slow)
    first.begin(finish)
    until(lambda: fake_job.leases()[0].lease.finished == 1, "rank 0 has finished")
    assert not first.answered(1.5), "its barrier is over, and it stays"
    assert slow.call(waiting) == 0
    slow.call(barrier)
    slow.call(finish)
    first.result()


@pytest.mark.scenario(52)
def test_polling_outlives_whoever_ends_first(nodes: Nodes) -> None:
    three = nodes.several([0, 1, 2], planned=False, nnodes="1:3")
    meet(*three)
    three[0].kill()
    for _ in range(20):
        assert [node.call(waiting) >= 0 for node in three[1:]] == [True, True]


@pytest.mark.scenario(53)
def test_nothing_is_left_that_nobody_owns(fake: FakeApi, fake_job: Job, nodes: Nodes) -> None:
    """With an operator: its own objects, owned as it made them. Standalone: no more of them however many runs."""
    fake_job.plan([0, 1])
    owner = [{"apiVersion": "elasticjob.dev/v1alpha1", "kind": "ElasticJob", "name": fake_job.name, "uid": "u"}]
    for kind in (kube.CONFIG_MAP, kube.LEASE):
        for body in fake_job.api.list(kind, {})[0]:
            body["metadata"]["ownerReferences"] = owner
            assert fake_job.api.replace(kind, body)
    both = nodes.several([0, 1])
    meet(*both)
    again(fake_job, *both)
    both[1].kill(signal.SIGTERM)
    called(both[0])
    meet(both[0])
    assert fake.count("create") == 5, "the operator's"
    for kind in (kube.CONFIG_MAP, kube.LEASE):
        assert all(body["metadata"]["ownerReferences"] == owner for body in fake_job.api.list(kind, {})[0])


@pytest.mark.scenario(54)
def test_sigterm_in_the_first_rendezvous_leaves_no_ghost(fake_job: Job, nodes: Nodes) -> None:
    gone = nodes.start(0, planned=False, nnodes="2:3")
    gone.begin(rendezvous)
    until(lambda: fake_job.arrived() == {0: 1}, "arrived")
    gone.kill(signal.SIGTERM)
    assert gone.process.wait(PATIENCE) == 128 + signal.SIGTERM
    assert fake_job.arrived() == {}
    meet(*nodes.several([1, 2], planned=False, nnodes="2:3"))
