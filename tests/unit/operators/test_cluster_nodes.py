"""What a job makes of cluster nodes that fail, are drained, or are known to be bad."""

import asyncio
import random
from typing import Any

import pytest

from elasticjob_operator.api import status
from elasticjob_operator.core import avoiding, building, children, cluster_nodes, deciding, leaving, placing
from elasticjob_operator.core.actions import Create, Decision, DeletePod, Replace, WriteRound
from elasticjob_operator.core.cluster_nodes import ClusterNode
from elasticjob_operator.core.observed import Budget, Observed
from elasticjob_operator.kube.noticing import Notice
from elasticjob_operator.kube.queue import Key, Queue
from elasticjob_rendezvous.round.record import Phase, Reason, Record
from support import operator_builders as build
from support.operator_builders import NOW, a_job, a_notice, a_pod, a_round, at, held, known_of, running
from support.operator_world import World

CORDONED, SPOT = ClusterNode("b", cordoned=True), ClusterNode("b", leaving="karpenter.sh/disrupted")
ASKED = a_notice(f"leaving.1.{NOW - 9}")


def on_two(node: ClusterNode, record: Record | None = None, *, answered: bool = False, **fields: Any) -> Observed:
    """A job of two whose node 1 is on this cluster node, and its node 0 on a good one."""
    record = record or a_round()
    known = known_of(record, notice_time=NOW - 9 if record.notice else None, **fields.pop("known", {}))
    answer = ASKED.id if answered else ""
    defaults = {
        "having": [a_pod(0, node="a"), a_pod(1, node="b")],
        "leases": [held(0, arrived=record.sealed, checkpointed=answer), held(1, arrived=record.sealed)],
        "job": a_job(nodes=2, known=known, **fields.pop("spec", {})),
    }
    nodes = {"a": ClusterNode("a"), "b": node}
    return running(record=record, cluster_nodes=nodes, **{**defaults, **fields})


def decided(read: Observed, now: int = NOW) -> Decision:
    """The whole decision."""
    return deciding.decide(read, now)


def written(read: Observed) -> Any:
    """The round that is written, if one is."""
    return next((a.record for a in decided(read).actions if isinstance(a, WriteRound)), None)


def deleted(read: Observed) -> list[tuple[str, bool]]:
    """Pods that are deleted, and whether by force."""
    return [(a.name, a.force) for a in decided(read).actions if isinstance(a, DeletePod)]


# What a Node object says


@pytest.mark.parametrize(
    ("spec", "ready", "node"),
    [
        ({}, "True", ClusterNode("n")),
        ({}, "Unknown", ClusterNode("n", unready_since=1767225600)),
        ({}, "False", ClusterNode("n", unready_since=1767225600)),
        ({"unschedulable": True}, "True", ClusterNode("n", cordoned=True)),
        ({"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}, "True", ClusterNode("n")),
        ({"taints": [{"key": "karpenter.sh/disrupted"}]}, "True", ClusterNode("n", leaving="karpenter.sh/disrupted")),
        (
            {"taints": [{"key": "aws-node-termination-handler/spot-itn"}]},
            "True",
            ClusterNode("n", leaving="aws-node-termination-handler/spot-itn"),
        ),
    ],
)
def test_a_cluster_node_is_what_matters_to_its_pods(spec: dict[str, Any], ready: str, node: ClusterNode) -> None:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}

    found = cluster_nodes.parse({"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": [condition]}})

    assert found == node


def test_a_cluster_node_that_has_said_nothing_yet_is_taken_for_ready() -> None:
    assert cluster_nodes.parse({"metadata": {"name": "n"}}) == ClusterNode("n")


# They may go: a checkpoint first


@pytest.mark.parametrize("node", [CORDONED, SPOT], ids=["cordoned", "spot"])
def test_when_a_cluster_node_may_go_a_checkpoint_is_asked_for_at_once(node: ClusterNode) -> None:
    read = on_two(node)

    assert written(read).notice == a_notice(f"leaving.1.{NOW}")
    assert deleted(read) == []
    (event,) = [e for e in decided(read).events if e.reason == "ClusterNodeLeaving"]
    assert "b (" in event.message


@pytest.mark.parametrize(
    "read",
    [
        on_two(ClusterNode("b")),
        on_two(CORDONED, spec={"resizePolicy": {"checkpointGraceSeconds": 0}}),
        on_two(CORDONED, a_round(Phase.FINISHING)),
        on_two(CORDONED, having=[a_pod(0, node="a"), a_pod(1, 1, node="a")]),
        on_two(CORDONED, a_round(notice=ASKED), answered=True),
    ],
    ids=["all well", "none wanted", "finishing", "not ours", "answered"],
)
def test_no_checkpoint_is_asked_for_without_need(read: Observed) -> None:
    assert written(read) is None or written(read).notice is None


def test_the_notice_stands_as_long_as_the_cluster_node_may_go_and_goes_when_it_stays() -> None:
    asked = a_round(notice=ASKED)

    assert written(on_two(CORDONED, asked, answered=True)) is None
    assert written(on_two(ClusterNode("b"), asked, answered=True)).notice is None


def test_a_resize_asks_for_a_checkpoint_of_its_own() -> None:
    read = on_two(CORDONED, a_round(notice=ASKED), answered=True)
    shrinking = a_job(nodes=1, known=read.job.status)

    assert written(on_two(CORDONED, a_round(notice=ASKED), answered=True, job=shrinking)).notice == a_notice(f"1.{NOW}")


def budget(read: Observed) -> int | None:
    """What the budget becomes."""
    for action in children.budget(at(read)):
        assert isinstance(action, Create | Replace)
        assert action.manifest["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        return int(action.manifest["spec"]["minAvailable"])
    return None


def test_evictions_wait_until_the_checkpoint_is_there() -> None:
    asked = a_round(notice=ASKED)
    held_back, let_go = Budget("7", 1024), Budget("8", 0)

    assert budget(on_two(ClusterNode("b"), budget=Budget())) == 1024
    assert budget(on_two(ClusterNode("b"), budget=held_back)) is None
    assert budget(on_two(CORDONED, asked, budget=held_back)) is None
    assert budget(on_two(CORDONED, asked, answered=True, budget=held_back)) == 0
    assert budget(on_two(CORDONED, asked, answered=True, budget=let_go)) is None
    assert budget(on_two(ClusterNode("b"), budget=let_go)) == 1024
    assert budget(on_two(CORDONED, asked, answered=True)) is None


def test_evictions_wait_no_longer_than_the_grace() -> None:
    late = on_two(CORDONED, a_round(notice=a_notice(ASKED.id, grace=9)), budget=Budget("7", 1024))

    assert budget(late) == 0


def test_only_a_machine_that_goes_for_sure_has_its_pods_taken_away() -> None:
    asked = a_round(notice=ASKED)

    assert deleted(on_two(CORDONED, asked, answered=True)) == []
    assert deleted(on_two(SPOT, asked)) == []
    assert deleted(on_two(SPOT, asked, answered=True)) == [("digits-1-0", False)]
    assert deleted(on_two(SPOT, a_round(Phase.OPEN, 2))) == [("digits-1-0", False)]


# They do not answer


def silent(seconds: int, **fields: Any) -> list[tuple[str, bool]]:
    """Pods that are given up when node 1's machine has not answered for so long."""
    return deleted(on_two(ClusterNode("b", unready_since=NOW - seconds), **fields))


WITHOUT = {"record": a_round(number=2, members=(0,)), "leases": [held(0, arrived=2), held(1)]}
LEFT = {"record": a_round(Phase.OPEN, 2, reason=Reason.PEER_SILENT), "leases": [held(0, arrived=2), held(1)]}
ALL_SILENT = {"record": a_round(Phase.OPEN, 2, reason=Reason.PEER_SILENT), "leases": [held(0), held(1)]}


@pytest.mark.parametrize(
    ("seconds", "fields", "given_up"),
    [
        (9, WITHOUT, False),
        (10, WITHOUT, True),
        (10, LEFT, True),
        (10, ALL_SILENT, False),
        (10, {}, False),
        (159, {}, False),
        (160, {}, True),
        (10, {"having": [a_pod(0, node="a"), a_pod(1, node="b", phase="Failed")]}, False),
    ],
    ids=["grace", "outside", "left", "unsure", "in the round", "fenced", "stopped", "ended"],
)
def test_a_pod_that_does_not_answer_is_given_up_when_it_can_do_no_harm(
    seconds: int, fields: dict[str, Any], *, given_up: bool
) -> None:
    assert (("digits-1-0", True) in silent(seconds, **fields)) is given_up


def test_a_pod_that_ends_for_ever_is_given_up_too() -> None:
    pods = [a_pod(0, node="a"), a_pod(1, node="b", deleting=True), a_pod(1, 1, node="a")]

    assert silent(20, having=pods, **WITHOUT) == [("digits-1-0", True)]


def test_that_a_pod_is_given_up_is_told_and_looked_at_in_time() -> None:
    read = on_two(ClusterNode("b", unready_since=NOW - 10), **WITHOUT)  # type: ignore[arg-type]
    (event,) = [e for e in decided(read).events if e.reason == "PodGivenUp"]
    assert event.message == "digits-1-0 is given up: its cluster node b does not answer"

    waiting = decided(on_two(ClusterNode("b", unready_since=NOW - 4), **WITHOUT))  # type: ignore[arg-type]
    assert waiting.wake_after == 6


# They are bad


def memory(*bad: status.BadNode, code: int = 137, node: str = "b") -> tuple[status.BadNode, ...]:
    """What is remembered when node 1's pod has failed there."""
    known = known_of(a_round(), bad_nodes=bad)
    pods = [a_pod(0), a_pod(1, phase="Failed", exit_code=code, node=node)]
    return decided(running(job=a_job(nodes=2, known=known), having=pods)).status.bad_nodes


def test_where_pods_failed_for_no_fault_of_their_own_is_remembered() -> None:
    assert memory() == (status.BadNode("b", 1, NOW),)
    assert memory(status.BadNode("b", 1, NOW - 100)) == (status.BadNode("b", 2, NOW),)
    assert memory(code=1) == ()


def test_what_was_long_ago_is_forgotten_and_so_is_what_is_too_much() -> None:
    assert memory(status.BadNode("c", 5, NOW - 3600)) == (status.BadNode("b", 1, NOW),)
    many = memory(*(status.BadNode(f"n{number}", 1, NOW - 100 + number) for number in range(8)))
    assert [bad.name for bad in many] == [*(f"n{number}" for number in range(1, 8)), "b"]


def test_new_pods_keep_away_from_where_it_happened_twice() -> None:
    known = known_of(a_round(), bad_nodes=(status.BadNode("b", 2, NOW), status.BadNode("c", 1, NOW)))
    old = a_pod(1, started=False, ready=False)

    decision = decided(running(job=a_job(nodes=2, known=known), leases=[held(0)], having=[a_pod(0)]))
    remade = decided(running(job=a_job(nodes=2, known=known), having=[a_pod(0), old]))

    (pod,) = [a.manifest for a in decision.actions if isinstance(a, Create) and a.kind == "Pod"]
    (term,) = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["b"]}]}
    assert [a.name for a in remade.actions if isinstance(a, DeletePod)] == ["digits-1-0"]


def test_the_users_own_affinity_stays() -> None:
    mine = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}], "matchFields": [{"key": "x"}]}
    wish = {
        "podAffinity": {"a": 1},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [mine, {}]}},
    }

    found: Any = placing.ruled_out(wish, ["b"])

    out = {"key": "metadata.name", "operator": "NotIn", "values": ["b"]}
    assert found["podAffinity"] == {"a": 1}
    terms = found["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{**mine, "matchFields": [{"key": "x"}, out]}, {"matchFields": [out]}]


def test_who_was_given_up_or_evacuated_is_remembered() -> None:
    gone = decided(on_two(ClusterNode("b", unready_since=NOW - 10), **WITHOUT))  # type: ignore[arg-type]
    spot = decided(on_two(SPOT, a_round(notice=ASKED), answered=True))

    assert gone.status.bad_nodes == (status.BadNode("b", 1, NOW),)
    assert avoiding.avoided(spot.status.bad_nodes) == ("b",)


def test_nothing_is_remembered_of_a_job_that_is_over() -> None:
    assert decided(on_two(SPOT, a_round(Phase.CLOSED))).status.bad_nodes == ()


def test_without_places_to_avoid_the_template_is_as_it_was() -> None:
    assert building.digest(build.TEMPLATE) == building.digest(build.TEMPLATE, ())
    assert building.digest(build.TEMPLATE) != building.digest(build.TEMPLATE, ("b",))
    assert not any(leaving.restless(at(on_two(ClusterNode("b")))))


# All of it together


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_to_cluster_nodes_the_job_trains_again_without_a_storm(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same chances at each run
    world = World(nodes=chance.randint(1, 4), failurePolicy={"maxFailures": 1000})
    world.settle()
    before, acts = world.highest, 0
    for _ in range(60):
        what = chance.random()
        if what < 0.45:
            world.operate(writes=chance.choice([None, None, 0, 1, 2, 3]))
        elif what < 0.85:
            world.agents(lambda names: [n for n in names if chance.random() < 0.6])
        elif what < 0.9:
            world.now += chance.choice([1, 30, 400])
        elif what < 0.92:
            world.reap()
        else:
            chance.choice([world.cordon, world.call_back, world.die, world.repair])(chance.choice(["n0", "n1", "n2"]))
            acts += 1
    world.settle()

    record = world.record
    assert record is not None
    assert record.phase is Phase.SEALED
    assert len(record.members) == len(record.plan) == world.fields["nodes"]
    assert {world.cluster[pod.node].leaving for pod in world.pods.values() if pod.live} == {""}
    assert all(world.cluster[pod.node].unready_since is None for pod in world.pods.values() if pod.live)
    assert world.status["failures"] == 0
    assert world.highest - before <= 8 * (acts + 1), "a storm of rounds"


# The watch


async def test_what_happens_to_a_cluster_node_is_news_for_the_jobs_on_it() -> None:
    queue = Queue()
    notice = Notice(queue)

    def node(*, cordoned: bool, beat: str = "1", what: str = "MODIFIED") -> None:
        item = {"metadata": {"name": "b", "uid": "n", "resourceVersion": beat}, "spec": {"unschedulable": cordoned}}
        notice.event("Node", {"type": what, "object": item})

    async def told() -> list[Key]:
        await asyncio.sleep(0.15)
        found = []
        while queue._ready:
            found.append(await queue.get())
            queue.done(found[-1])
        return found

    node(cordoned=False, what="ADDED")
    meta = {"name": "digits-1-0", "namespace": "ns", "uid": "p", "labels": {"elasticjob.dev/job-name": "digits"}}
    notice.event("Pod", {"type": "ADDED", "object": {"metadata": meta, "spec": {"nodeName": "b"}, "status": {}}})
    assert await told() == [Key("ns", "digits")]

    node(cordoned=False, beat="2")
    assert await told() == []
    node(cordoned=True, beat="3")
    assert await told() == [Key("ns", "digits")]
    assert notice.cluster_nodes["b"].cordoned
    node(cordoned=True, what="DELETED")
    assert await told() == [Key("ns", "digits")]
    assert notice.cluster_nodes == {}

    notice.event("Pod", {"type": "DELETED", "object": {"metadata": meta, "spec": {"nodeName": "b"}, "status": {}}})
    await told()
    node(cordoned=True, what="ADDED")
    assert await told() == []
