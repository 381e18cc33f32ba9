"""``minNodes`` and ``maxNodes``, edited while the job lives."""

from typing import Any

from elasticjob_operator.core import children, deciding
from elasticjob_operator.core.actions import Create, DropLease, Replace
from elasticjob_operator.core.observed import Access
from elasticjob_rendezvous.round.lease import SlotLease
from support.operator_builders import NOW, a_job, a_pod, a_round, held, known_of, running
from support.operator_world import World


def test_a_job_grows_beyond_the_most_that_its_pods_were_started_with() -> None:
    world = World(maxNodes=2, nodes=2)
    world.settle()

    world.edit(maxNodes=6, nodes=6)
    world.settle()

    assert (world.status["state"], world.status["nodes"]) == ("Running", 6)
    assert (sorted(world.leases), world.access.slots) == ([0, 1, 2, 3, 4, 5], 6)
    assert len(world.history) == 2


def test_a_job_whose_most_is_lowered_shrinks_and_its_surplus_leases_go() -> None:
    world = World(maxNodes=6, nodes=None)
    world.settle()

    world.edit(maxNodes=3)
    world.settle()

    assert (world.status["state"], world.status["nodes"]) == ("Running", 3)
    assert (sorted(world.leases), world.access.slots) == ([0, 1, 2], 3)
    assert world.status["failures"] == 0


def test_a_raised_minimum_holds_for_the_pods_that_were_told_another() -> None:
    world = World(minNodes=1, maxNodes=3, nodes=3)
    world.settle()

    world.edit(minNodes=3)
    world.settle()
    world.fields["template"] = {"spec": {"containers": [{"name": "trainer", "image": "x"}]}}
    world.kill("digits-2-0")
    world.operate()
    world.agents()

    assert [len(r.members) for r in world.history] == [3]
    world.settle()
    assert [len(r.members) for r in world.history] == [3, 3]


def actions_of(**fields: Any) -> list[Any]:
    """What is done about rights and Leases of a job of two nodes whose maximum is now 2, and was 4."""
    leases = fields.pop("leases", [held(0), held(1), SlotLease(2), SlotLease(3)])
    job = a_job(nodes=2, maxNodes=2, known=known_of(a_round()))
    access = Access(account=True, role=True, role_version="7", slots=4, binding=True)
    decision = deciding.decide(running(job=job, leases=leases, access=access, **fields), NOW)
    return [a for a in decision.actions if isinstance(a, Create | Replace | DropLease)]


def test_leases_that_are_free_and_beyond_the_maximum_go_and_the_rights_to_them() -> None:
    replace, *drops = actions_of()

    assert [a.lease.slot for a in drops] == [2, 3]
    assert children.role_slots(dict(replace.manifest)) == 2


def test_a_lease_stays_while_somebody_may_still_need_it() -> None:
    leases = [held(0), held(1), SlotLease(2), held(3)]

    assert actions_of(leases=leases) == []
    assert actions_of(having=[a_pod(0), a_pod(1), a_pod(3, deleting=True)]) == []
