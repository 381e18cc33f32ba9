"""Real torchruns share six pretended GPUs; an urgent job, a cluster node come and go; who scales ends with most.

One of the jobs trains, and counts how often each image was; the workers of the others only keep pace, and what they
report of their throughput is chosen here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demo import checks
from demo.story import PATIENCE
from support.e2e_sharing import Sharing, now

if TYPE_CHECKING:
    from cluster import LocalCluster
    from demo.story import Scene

DEVICES = 6


def test_jobs_share_the_cluster_by_priority_and_throughput(scene: Scene, local: LocalCluster) -> None:
    sharing = Sharing(scene)
    sharing.prepare()
    sharing.start("scales", 1, 4, pace=1, speedup=1)
    sharing.start("flat", 1, 4, pace=1, speedup=-1)  # two together are slower than one alone
    sharing.learn("small", 1, 2)
    three = ("scales", "flat", "small")
    sharing.settle("three jobs to have it all", *three, total=DEVICES)
    begin = now()
    sharing.measure(2, "scales", "flat")

    sharing.start("urgent", 3, 3, pace=1, speedup=0, priority="urgent")
    scene.view.wait("the urgent one to train", lambda: sharing.trains("urgent"), seconds=PATIENCE)
    sharing.settle("the urgent one to have its three", *three, "urgent", total=DEVICES)
    assert sharing.given("urgent") == 3
    assert sharing.resizes("urgent") in ([3], [0, 3])
    assert any(text.startswith("Shrunk: ") and "urgent" in text for name in three for text in sharing.reasons[name])
    assert all(sharing.given(name) == 1 for name in three)

    lost, stopped = sharing.host("urgent"), sharing.stopped(*three)
    local.kill_node(lost)
    try:
        scene.view.wait("the urgent one to go on elsewhere", lambda: sharing.has_left(lost, "urgent"), seconds=PATIENCE)
        assert sharing.given("urgent") == 3
        assert sharing.stopped(*three) > stopped  # two cluster nodes hold its three and one more
    finally:
        local.start_node(lost)
    sharing.settle("the cluster node that is back to be used", *three, "urgent", total=DEVICES)
    assert all(map(sharing.given, three))  # whoever was stopped has come back by itself

    idle = sharing.idle_share(begin, now(), DEVICES)
    print(f"idle share: {idle:.1%}; grants: {sharing.grants}")
    assert idle < 0.4  # 20 % on a busy machine; a cluster node was gone for a while

    sharing.measure(1, "scales", "flat")
    told = len(sharing.reasons["scales"])
    sharing.finish("urgent")
    sharing.settle("what the urgent one had to be used", *three, total=DEVICES)
    assert (sharing.given("scales") >= 3, sharing.given("flat")) == (True, 1), sharing.grants
    assert any(text.startswith("Grown: 1 → ") and "throughput" in text for text in sharing.reasons["scales"][told:])
    for name in three:
        sharing.finish(name)
    checks.learned(sharing.learned("small"))
    for name in (*three, "urgent"):
        assert len(sharing.resizes(name)) <= 8, sharing.grants  # arrival, loss and return, a step of exploration each
