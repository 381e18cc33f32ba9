"""`python -m demo`: set the stage, tell the story, say what to look at next. Exit code 1 if a promise was not kept."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING

from cluster import ClusterError, tools
from demo import evidence, staging, story
from demo.telling import DIM, RED, Reporter, Teller
from demo.watching import View, WaitError

if TYPE_CHECKING:
    from cluster.clusters import Cluster

CLUSTER = "demo"
NAMESPACE = "elasticjob-demo"


def main() -> int:
    began = time.monotonic()
    teller = Teller()
    try:
        with teller.step("Setting up: a Kubernetes cluster of three nodes, images, the operator"):
            cluster = staging.set_up(CLUSTER)
            staging.make_namespace(cluster, NAMESPACE)
    except ClusterError as error:
        teller.plain(f"\n✗ {error}", style=RED)
        return 1
    if not _tell(cluster, teller):
        return 1
    teller.plain(f"\nAll of it took {time.monotonic() - began:.0f} s.")
    _look_further(cluster, teller)
    return 0


def _tell(cluster: Cluster, teller: Teller) -> bool:
    """The five steps, and the table of rounds; whether all of it went as promised."""
    with View(cluster.kubeconfig, namespace=NAMESPACE, job=story.JOB).watched() as view:
        Reporter(teller, view)
        scene = story.Scene(
            kubectl=cluster.kubectl, view=view, operator_namespace=staging.OPERATOR_NAMESPACE, tell=teller.line
        )
        try:
            for number, step in enumerate(story.STEPS, start=1):
                with teller.step(f"{number}. {step.title}"):
                    step.play(scene)
        except (AssertionError, ClusterError, WaitError) as error:
            _fail(cluster, teller, error)
            return False
        teller.plain("\nEvery round of the job")
        teller.rounds(view.history.rounds)
        for what, seconds in scene.told.items():
            teller.plain(f"  {what}: {seconds:.1f} s")
    return True


def _fail(cluster: Cluster, teller: Teller, error: Exception) -> None:
    sections = evidence.gather(cluster.kubectl, namespace=NAMESPACE, operator_namespace=staging.OPERATOR_NAMESPACE)
    for section in sections:
        teller.plain(section, style=DIM)
    teller.plain(f"\n✗ {error}", style=RED)
    teller.plain("The cluster is still there to look into (see below); `make clean-cluster` takes it down.")
    _look_further(cluster, teller)


def _look_further(cluster: Cluster, teller: Teller) -> None:
    teller.plain(f"""
To look further:
  export KUBECONFIG={cluster.kubeconfig}{_path_to_kubectl()}
  kubectl --namespace {NAMESPACE} get ej
  kubectl --namespace {NAMESPACE} describe ej {story.JOB}
  kubectl --namespace {NAMESPACE} get configmap {story.JOB}-rendezvous --output=yaml
To clean up:
  make clean-cluster""")


def _path_to_kubectl() -> str:
    """A line that makes the pinned kubectl a command, on a machine that has none of its own."""
    return "" if shutil.which("kubectl") else f'\n  export PATH="{tools.path("kubectl").parent}:$PATH"'


if __name__ == "__main__":
    sys.exit(main())
