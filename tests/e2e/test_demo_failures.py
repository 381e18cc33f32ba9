"""What must hold when things break that the demo does not show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from demo import checks, story
from elasticjob_rendezvous.round.record import Reason
from support import e2e_scenes

if TYPE_CHECKING:
    from demo.rounds import Round
    from demo.story import Scene


def test_a_worker_that_crashes_while_the_operator_is_down_re_forms_its_group_and_a_suspended_one_goes_on(
    scene: Scene,
) -> None:
    before, pods = e2e_scenes.start_with_two(scene), scene.pods

    with e2e_scenes.without_operator(scene):
        e2e_scenes.kill_workers(scene, scene.pod_of(before.members[1]))
        after = scene.wait_round("the group to train again", lambda one: one.number > before.number)

    checks.equal("rounds that a crash takes", expected=1, seen=after.number - before.number)
    checks.equal("reason of the round", expected=Reason.WORKERS_FAILED, seen=after.reason)
    checks.equal("members of the round", expected=before.members, seen=after.members)
    checks.equal("pods", expected=pods, seen=scene.pods)
    _is_suspended_and_goes_on_from_its_checkpoint(scene, after)
    checks.learned(e2e_scenes.finish(scene))
    record = scene.view.history.record
    assert record is not None
    assert record.failures == 1


def _is_suspended_and_goes_on_from_its_checkpoint(scene: Scene, before: Round) -> None:
    """The workers have saved when they end, so no step is trained twice, and the counters go on where they were."""
    suspend = '{"spec": {"suspend": %s}}'
    scene.run("patch", f"elasticjob/{story.JOB}", "--type=merge", "--patch", suspend % "true")
    scene.wait("the job to rest", lambda: scene.status.get("state") == "Suspended" and not scene.pods)
    scene.run("patch", f"elasticjob/{story.JOB}", "--type=merge", "--patch", suspend % "false")
    after = scene.wait_round("the job to train again", lambda one: one.number > before.number and one.size > 1)

    checks.equal("reason of the round", expected=Reason.RESUMED, seen=after.reason)
    checks.at_least("step at which it went on", expected=before.last_step + 1, seen=after.first_step)
    counted = {name: scene.status.get(name, 0) for name in ("failures", "disruptions", "resizes")}
    checks.equal("counters", expected={"failures": 0, "disruptions": 0, "resizes": 0}, seen=counted)
