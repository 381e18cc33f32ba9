"""The demo's five steps, asserted: rounds, membership, reasons, exit codes, sample counts, nothing left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from demo import story
from support import e2e_scenes

if TYPE_CHECKING:
    from demo.story import Scene

WITHOUT_A_TIMER = 25.0
"""Seconds from the loss of rank 0 to the next round, usually one: torch's last call (30 s), or the time after which a
Lease or a cluster node counts as lost, would not fit in. How long its workers then import torch is the machine's."""


def test_the_story_of_the_demo(scene: Scene) -> None:
    for step in story.STEPS:
        print(f"--- {step.title}")
        step.play(scene)

    print(scene.told)
    assert [round_.number for round_ in scene.view.history.rounds] == [1, 2, 3, 4, 5]
    assert scene.told["rank 0's deletion to the round without it"] < WITHOUT_A_TIMER
    assert set(scene.view.exit_codes.values()) == {0}
    record = scene.view.history.record
    assert record is not None
    assert record.result.value == "Succeeded"

    scene.run("delete", f"elasticjob/{story.JOB}")
    scene.wait("its objects to go with it", lambda: not e2e_scenes.leftovers(scene))
