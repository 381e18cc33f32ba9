"""Jobs with torch's own backends: what their pods are told, and what the operator makes of what it sees of them."""

import random
from typing import Any

import pytest

from elasticjob_operator.api import names
from elasticjob_operator.core import building, children, explaining, places
from elasticjob_operator.core.actions import Create
from elasticjob_operator.core.observed import Access
from elasticjob_rendezvous.round.record import Phase, Reason, Result
from support import operator_builders as build
from support.operator_world import World

ELASTIC: dict[str, dict[str, Any]] = {
    "c10d": {"backend": "c10d"},
    "etcd-v2": {"backend": "etcd-v2", "etcd": {"managed": True}},
    "etcd": {"backend": "etcd", "etcd": {"endpoint": "etcd.example:2379"}},
    "kubernetes-dynamic": {"backend": "kubernetes-dynamic"},
}
STATIC: dict[str, Any] = {"backend": "static"}
ALL = {**ELASTIC, "static": STATIC}
TWO = {"minNodes": 2, "maxNodes": 2, "nodes": 2}


def started(rendezvous: dict[str, Any], **fields: Any) -> World:
    world = World(rendezvous=rendezvous, **fields)
    world.settle()
    return world


def running(world: World) -> list[str]:
    """Names of the pods that train."""
    return sorted(name for name, pod in world.pods.items() if not pod.terminal)


def uids(world: World) -> set[str]:
    """The pods that train, by what tells one from its successor."""
    return {world.pods[name].uid for name in running(world)}


def trains(world: World, nodes: int) -> None:
    """So many pods run, all of one run, and the status says so."""
    assert world.record is not None
    assert world.record.phase is Phase.SEALED
    assert len(world.record.members) == len(running(world)) == nodes
    assert {world.pods[name].run for name in running(world)} == {world.status["restarts"]}
    assert (world.status["state"], world.status["nodes"]) == ("Running", nodes)


# What a pod is told


def told(rendezvous: dict[str, Any], slot: int = 1, **fields: Any) -> dict[str, Any]:
    """The environment of a slot's pod: values, and fields of the pod."""
    job = build.a_job(rendezvous=rendezvous, **fields)
    pod = building.pod(job, build.a_spec(rendezvous=rendezvous, **fields), slot, 0)
    env = pod["spec"]["containers"][0]["env"]
    return {e["name"]: e.get("value") or e["valueFrom"]["fieldRef"]["fieldPath"] for e in env}


def test_a_c10d_agent_is_told_where_slot_0_is_and_whether_it_is_that() -> None:
    assert told({"backend": "c10d", "conf": {"last_call_timeout": "5"}}, minNodes=2) == {
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "digits-rendezvous.default.svc:29400",
        "PET_RDZV_ID": f"{build.UID}.0",
        "PET_RDZV_CONF": "is_host=0,last_call_timeout=5",
        "PET_NNODES": "2:4",
        "PET_NPROC_PER_NODE": "1",
        "PET_MAX_RESTARTS": "10",
        "PET_STANDALONE": "0",
        "ELASTICJOB_SLOT": "1",
        "PET_LOCAL_ADDR": "status.podIP",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    assert told({"backend": "c10d"}, slot=0)["PET_RDZV_CONF"] == "is_host=1"


def test_a_static_agent_has_a_rank_and_ends_with_its_workers() -> None:
    env = told(STATIC, **TWO)

    assert (env["PET_NODE_RANK"], env["PET_NNODES"], env["PET_MAX_RESTARTS"]) == ("1", "2:2", "0")
    assert env["PET_RDZV_ENDPOINT"] == "digits-rendezvous.default.svc:29400"


@pytest.mark.parametrize(
    ("name", "endpoint"),
    [
        ("etcd-v2", "digits-etcd.default.svc:2379"),
        ("etcd", "etcd.example:2379"),
        ("kubernetes-dynamic", "default/digits"),
    ],
)
def test_each_backend_is_told_its_endpoint(name: str, endpoint: str) -> None:
    env = told(ELASTIC[name])

    assert (env["PET_RDZV_BACKEND"], env["PET_RDZV_ENDPOINT"]) == (name, endpoint)


def test_our_own_backend_takes_its_conf_from_the_spec_too() -> None:
    assert told({"conf": {"fence": "60"}})["PET_RDZV_CONF"] == "fence=60"
    assert "PET_RDZV_CONF" not in told({})


@pytest.mark.parametrize("name", ALL)
def test_a_pod_has_a_token_and_rights_only_if_its_backend_uses_them(name: str) -> None:
    wish = build.a_spec(rendezvous=ALL[name], minNodes=4)
    job = build.a_job()
    pod = building.pod(job, wish, 0, 0)
    mounts = [m["name"] for m in pod["spec"]["containers"][0]["volumeMounts"]]
    made = children.missing(build.seen(job=job, access=Access()), wish, 4)
    rules = [rule for one in made if isinstance(one, Create) for rule in one.manifest.get("rules") or ()]
    own = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["digits-dynamic"]}

    uses = name == "kubernetes-dynamic"
    assert ("elasticjob-token" in mounts) == uses
    assert rules == ([{**own, "verbs": ["get", "update"]}] if uses else [])


def test_the_etcd_of_a_job_fits_a_restricted_namespace_and_is_none_of_its_nodes() -> None:
    pod = places.etcd_pod(build.a_job(), "etcd:1")
    (container,) = pod["spec"]["containers"]

    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "--enable-v2=true" in container["command"]
    assert names.SLOT_LABEL not in pod["metadata"]["labels"]


# What becomes of the job


@pytest.mark.parametrize("name", ALL)
def test_a_job_starts_and_succeeds_when_its_pods_do(name: str) -> None:
    world = started(ALL[name], **TWO)
    trains(world, 2)
    assert world.leases == {}

    for pod in running(world):
        world.fail(pod, 0)
    world.settle()

    assert world.record is not None
    assert (world.record.result, world.status["state"]) == (Result.SUCCEEDED, "Succeeded")
    assert world.status["restarts"] == world.status["failures"] == 0
    assert world.etcd is None


@pytest.mark.parametrize("name", ELASTIC)
def test_a_lost_pod_is_replaced_while_the_others_go_on(name: str) -> None:
    world = started(ELASTIC[name], nodes=3)
    before = uids(world)

    world.delete("digits-1-0")
    world.settle()

    trains(world, 3)
    assert len(before & uids(world)) == 2
    assert [r.reason for r in world.history] == [Reason.STARTED, Reason.POD_LOST]
    assert (world.status["restarts"], world.status["disruptions"], world.status["failures"]) == (0, 1, 0)


@pytest.mark.parametrize("name", ELASTIC)
def test_a_job_grows_and_shrinks_by_its_pods_alone(name: str) -> None:
    world = started(ELASTIC[name], nodes=1)

    world.scale(3)
    world.settle()
    trains(world, 3)
    world.scale(2)
    world.settle()

    trains(world, 2)
    assert running(world) == ["digits-0-0", "digits-1-0"]
    assert (world.status["restarts"], world.status["disruptions"]) == (0, 0)


@pytest.mark.parametrize(("name", "lost"), [("c10d", 0), ("static", 0), ("static", 1)])
@pytest.mark.parametrize("how", ["deleted", "gone"])
def test_a_loss_without_which_there_is_no_group_starts_all_anew(name: str, lost: int, how: str) -> None:
    world = started(ALL[name], **TWO)
    before = uids(world)

    (world.delete if how == "deleted" else world.kill)(f"digits-{lost}-0")
    world.settle()

    trains(world, 2)
    assert not before & uids(world)
    assert (world.status["restarts"], world.status["disruptions"], world.status["failures"]) == (1, 1, 0)
    assert "GroupRestarted" in [event.reason for event in world.events]


@pytest.mark.parametrize("name", ALL)
def test_a_failed_pod_starts_all_anew_and_those_that_fall_with_it_do_not_count(name: str) -> None:
    world = started(ALL[name], **TWO)

    for pod in running(world):
        world.fail(pod, 1)
    world.settle()

    trains(world, 2)
    assert (world.status["restarts"], world.status["failedPods"], world.status["failures"]) == (1, 1, 1)
    assert world.status["disruptions"] == 0


def test_what_falls_after_the_run_is_over_does_not_count_either() -> None:
    world = started(ELASTIC["kubernetes-dynamic"], nodes=3)

    world.fail("digits-2-0", 1)
    world.operate()
    world.operate()
    world.fail("digits-0-0", 1)
    world.settle()

    trains(world, 3)
    assert (world.status["restarts"], world.status["failures"]) == (1, 1)


def test_a_failure_beside_finished_nodes_starts_all_anew() -> None:
    world = started(ELASTIC["etcd"], **TWO)

    world.fail("digits-0-0", 0)
    world.operate()
    world.fail("digits-1-0", 1)
    world.settle()

    trains(world, 2)
    assert world.status["restarts"] == 1


def test_the_budget_ends_a_job_whose_pods_keep_failing() -> None:
    world = started(ELASTIC["c10d"], failurePolicy={"maxFailures": 2}, **TWO)

    for _ in range(3):
        world.fail(running(world)[1], 1)
        world.settle()

    assert (world.status["state"], world.status["reason"]) == ("Failed", "TooManyFailures")
    assert running(world) == []


def test_a_suspended_job_ends_its_pods_at_once_and_comes_back_as_another_run() -> None:
    world = started(ELASTIC["etcd-v2"], nodes=2)

    world.edit(suspend=True)
    world.settle()
    assert (running(world), world.etcd, world.status["state"]) == ([], None, "Suspended")
    world.edit(suspend=False)
    world.settle()

    trains(world, 2)
    assert world.status["restarts"] == 1


def test_the_others_wait_until_slot_0_runs_and_all_until_their_etcd_is_ready() -> None:
    hosted = World(rendezvous=STATIC, **TWO)
    hosted.operate()
    assert sorted(hosted.pods) == ["digits-0-0"]

    served = World(rendezvous=ELASTIC["etcd-v2"], nodes=2)
    served.etcd_works = False
    served.settle()
    assert served.etcd is not None
    assert served.pods == {}
    assert served.status["reason"] == explaining.ETCD_PENDING


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_lost_and_wherever_the_operator_dies_the_job_trains_again(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - chance that can be repeated
    rendezvous = chance.choice(list(ALL.values()))
    world = started(rendezvous, **TWO)
    failed = 0
    for _ in range(6):
        pods = running(world)
        if pods and chance.random() < 0.5:
            act = chance.choice([world.delete, world.kill, world.fail])
            failed += act == world.fail
            act(chance.choice(pods))
        for _ in range(chance.randrange(4)):
            world.operate(writes=chance.choice([None, 0, 1, 2, 3]))
        world.reap()
    world.settle()

    trains(world, 2)
    assert world.status["failures"] <= failed
