"""What must hold when things break that the demo does not show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from demo import checks
from elasticjob_rendezvous.round.record import Reason
from support import e2e_scenes

if TYPE_CHECKING:
    from demo.story import Scene


def test_a_worker_that_crashes_while_the_operator_is_down_re_forms_its_group(scene: Scene) -> None:
    before, pods = e2e_scenes.start_with_two(scene), scene.pods

    with e2e_scenes.without_operator(scene):
        e2e_scenes.kill_workers(scene, scene.pod_of(before.members[1]))
        after = scene.wait_round("the group to train again", lambda one: one.number > before.number)

    checks.equal("rounds that a crash takes", expected=1, seen=after.number - before.number)
    checks.equal("reason of the round", expected=Reason.WORKERS_FAILED, seen=after.reason)
    checks.equal("members of the round", expected=before.members, seen=after.members)
    checks.equal("pods", expected=pods, seen=scene.pods)
    checks.learned(e2e_scenes.finish(scene))
    record = scene.view.history.record
    assert record is not None
    assert record.failures == 1
