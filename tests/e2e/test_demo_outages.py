"""What a job makes of a machine without power, an API server that is away, another operator: as little as can be."""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from demo import checks, staging, story
from elasticjob_rendezvous.round import record
from elasticjob_rendezvous.round.record import Reason
from support import e2e_audit, e2e_scenes, e2e_versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster import LocalCluster
    from demo.rounds import Round
    from demo.story import Scene

OUTAGE = 12.0
"""Seconds without an API server: longer than a Lease's renewals are apart, so that some of them fail."""

WITHOUT_KUBERNETES = 40.0
"""Seconds in which the others must have met again: before Kubernetes calls the machine lost (40 s) and before a Lease
that stands still counts as free. Usually it is about 10: the silence that is taken for death, and a check-in."""


BESIDE_THE_RETURNED = 4
"""Steps after a lost cluster node is back: whatever it would disturb, a step of all others is what shows it."""


@contextlib.contextmanager
def without_power(local: LocalCluster, scene: Scene, node: str) -> Iterator[None]:
    """A cluster node is off; in the end it is on again, and the operator, which may have been there, is ready."""
    local.kill_node(node)
    try:
        yield
    finally:
        local.start_node(node)
        scene.await_operator()


@contextlib.contextmanager
def cut_off(local: LocalCluster, node: str) -> Iterator[None]:
    """A cluster node hears nobody and is heard by nobody, and what is on it runs on."""
    local.cut_off(node)
    try:
        yield
    finally:
        local.reconnect(node)


def test_the_others_go_on_without_a_machine_that_was_cut_off_and_then_without_one_that_lost_power(
    local: LocalCluster, scene: Scene
) -> None:
    """What ran on the one that was cut off trains and writes no more when it comes back."""
    before, operators = e2e_scenes.start_with_two(scene, apart=True), e2e_scenes.operators_nodes(scene)
    lost = next(member for member in before.members if scene.cluster_node_of(member) not in operators)
    uid = scene.pods[scene.pod_of(lost)]
    assert e2e_audit.writes_of(local.audit_log, uid)

    with cut_off(local, scene.cluster_node_of(lost)):
        alone = scene.wait_round("the other one to train again", lambda one: one.number > before.number)
        checks.equal("members of the round", expected={lost}, seen={*before.members} - {*alone.members})
        scene.wait("the pod to be given up", lambda: uid not in scene.pods.values())
        given_up = datetime.now(UTC)
        again = scene.wait_round("two nodes again", lambda one: one.number > alone.number and one.size > 1)
        pods, step = scene.pods, again.last_step
        print(f"processes that run on where nobody hears of them: {len(e2e_scenes.processes_of(uid))}")
    scene.wait("the end of what ran there", lambda: not e2e_scenes.processes_of(uid))
    scene.wait("training to go on", lambda: again.last_step > step + BESIDE_THE_RETURNED)
    checks.undisturbed(again, scene.current, pods, scene.pods)
    checks.equal("writes of the lost pod", expected=[], seen=e2e_audit.writes_of(local.audit_log, uid, since=given_up))
    checks.equal("disruptions", expected=1, seen=scene.job["status"].get("disruptions"))

    _goes_on_without_power_under_rank_0(local, scene, again)
    checks.learned(e2e_scenes.finish(scene))


def _goes_on_without_power_under_rank_0(local: LocalCluster, scene: Scene, before: Round) -> None:
    with without_power(local, scene, scene.cluster_node_of(before.members[0])):
        off = time.monotonic()
        after = scene.wait_round("the other one to train again", lambda one: one.number > before.number)
        assert after.sealed is not None
        print(f"from the loss of power to the next round: {after.sealed - off:.1f} s")
        assert after.sealed - off < WITHOUT_KUBERNETES

        reasons = (Reason.PEER_SILENT, Reason.WORKERS_FAILED)  # whether the pulse or the workers notice first
        checks.one_of("reason of the round", expected=reasons, seen=after.reason)
        checks.equal("members of the round", expected=before.members[1:], seen=after.members)
    scene.wait_round("two nodes again", lambda one: one.number > after.number and one.size > 1)


def test_training_notices_neither_an_api_server_that_is_away_nor_an_upgrade_of_the_operator(
    local: LocalCluster, scene: Scene, outages: list[tuple[datetime, datetime]]
) -> None:
    """The upgrade is to another version, and back."""
    local.give_image(e2e_versions.image())
    records = heard(scene)
    before, pods = e2e_scenes.start_with_two(scene), scene.pods
    step = before.last_step

    began = datetime.now(UTC)
    local.stop_component("kube-apiserver", crash=True)
    time.sleep(OUTAGE)
    local.start_component("kube-apiserver")
    outages.append((began, datetime.now(UTC)))
    scene.wait("news of the training", lambda: before.last_step > step)
    checks.at_least("steps since", expected=2, seen=before.last_step - step)  # not just the one that was under way

    staging.install_operator(local, "--reuse-values", f"--set=image.tag={e2e_versions.TAG}")
    step = before.last_step
    scene.wait("training after the upgrade", lambda: before.last_step > step)
    checks.undisturbed(before, scene.current, pods, scene.pods)

    scene.run("scale", f"elasticjob/{story.JOB}", "--replicas=3")
    grown = scene.wait_round("the new operator to resize it", lambda one: one.number > before.number and one.size > 2)
    assert any(map(e2e_versions.writes, records)), "it has written what the agents don't know"

    where = ("--namespace", staging.OPERATOR_NAMESPACE)
    local.helm("rollback", staging.RELEASE, *where, "--wait", f"--timeout={story.PATIENCE:g}s")
    pods, step = scene.pods, grown.last_step
    scene.wait("training after it was taken back", lambda: grown.last_step > step)
    checks.undisturbed(grown, scene.current, pods, scene.pods)
    checks.learned(e2e_scenes.finish(scene))


def heard(scene: Scene) -> list[str]:
    """The round's records, as they come."""
    records: list[str] = []

    def hear(kind: str, event: str, item: dict[str, Any], at: float) -> None:
        if kind == "configmaps" and record.KEY in item.get("data", {}):
            records.append(item["data"][record.KEY])

    scene.view.listeners.append(hear)
    return records
