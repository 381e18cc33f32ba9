"""Whatever happens in whatever order: the job ends well, and each image was trained exactly once in each epoch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from demo import checks, story
from support import e2e_scenes
from support.e2e_chaos import Chaos

if TYPE_CHECKING:
    from demo.story import Scene

ACTS = int(os.environ.get("CHAOS_ACTS", "6"))
"""Few, because the whole suite is to be quick; more for who hunts: CHAOS_ACTS=60 CHAOS_SEED=7."""

ROUNDS_PER_ACT = 3
"""One without who was lost, one with its successor, one for what that interrupted; more would be a storm."""

SEED = int(os.environ.get("CHAOS_SEED", "1"))


def test_each_image_is_trained_once_an_epoch_whatever_happens(scene: Scene) -> None:
    e2e_scenes.start_with_two(scene)
    chaos = Chaos(scene, SEED)
    for _ in range(ACTS):
        chaos.act()

    scene.run("scale", f"elasticjob/{story.JOB}", "--replicas=2")
    last = scene.current
    scene.wait_round("the job to train again", lambda one: one.number >= last.number)
    checks.learned(e2e_scenes.finish(scene))
    assert len(scene.view.history.rounds) <= ROUNDS_PER_ACT * (ACTS + 3)  # its start, the last resize, its end
    print(chaos.done)
