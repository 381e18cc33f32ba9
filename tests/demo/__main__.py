"""`python -m demo`: set the stage, tell the story, say what to look at next. Exit code 1 if a promise was not kept."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

from cluster import ClusterError, providers, tools
from demo import evidence, staging, story
from demo.telling import DIM, RED, Reporter, Teller
from demo.watching import View, WaitError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.clusters import Cluster

CLUSTER = "demo"
NAMESPACE = "elasticjob-demo"

INTERRUPTED = 130
"""Exit code after Ctrl-C, by the shells' convention."""


def main() -> int:
    began = time.monotonic()
    teller = Teller()
    try:
        make_room(teller)
        with teller.step("Setting up: a Kubernetes cluster of three nodes, images, the operator"):
            cluster = staging.bring_up(CLUSTER)
            done = _promised(cluster, teller, lambda: staging.prepare(cluster, NAMESPACE))
        done = done and _promised(cluster, teller, lambda: tell(cluster, teller))
    except ClusterError as error:  # there is no cluster to look into
        teller.plain(f"\n✗ {error}", style=RED)
        return 1
    except (KeyboardInterrupt, EOFError):
        teller.plain("\ninterrupted; what was started goes on running")
        return INTERRUPTED
    if done:
        teller.plain(f"\nAll of it took {time.monotonic() - began:.0f} s.")
    teller.plain(look_further(cluster))
    return 0 if done else 1


def make_room(teller: Teller) -> None:
    """Say that an earlier demo goes, and leave a person the choice."""
    if not staging.left_by_an_earlier_one(CLUSTER, NAMESPACE):
        return
    teller.plain(f"An earlier demo is still there (namespace {NAMESPACE}): it is replaced now, with all that is in it.")
    if sys.stdin.isatty():
        input("Enter goes on; Ctrl-C leaves it to look further. ")


def tell(cluster: Cluster, teller: Teller) -> None:
    """The five steps as they happen, and the table of rounds."""
    with View(cluster.kubeconfig, namespace=NAMESPACE, job=story.JOB).watched() as view:
        Reporter(teller, view)
        scene = story.Scene(
            kubectl=cluster.kubectl, view=view, operator_namespace=staging.OPERATOR_NAMESPACE, tell=teller.line
        )
        for number, step in enumerate(story.STEPS, start=1):
            with teller.step(f"{number}. {step.title}"):
                step.play(scene)
        teller.plain("\nEvery round of the job")
        teller.rounds(view.history.rounds)
        for what, seconds in scene.told.items():
            teller.plain(f"  {what}: {seconds:.1f} s")


def _promised(cluster: Cluster, teller: Teller, act: Callable[[], None]) -> bool:
    """Whether *act* went as promised; if not, everything there is to see is shown, and last what was wrong."""
    try:
        act()
    except (AssertionError, ClusterError, WaitError) as error:
        for section in evidence.gather(
            cluster.kubectl, namespace=NAMESPACE, operator_namespace=staging.OPERATOR_NAMESPACE
        ):
            teller.plain(section, style=DIM)
        teller.plain(f"\n✗ {error}", style=RED)
        return False
    return True


def look_further(cluster: Cluster) -> str:
    """What a person may do now."""
    own = shutil.which("kubectl")
    path = "" if own else f'\n  export PATH="{tools.path("kubectl").parent}:$PATH"'
    chosen = os.environ.get(providers.VARIABLE)
    clean = f"{providers.VARIABLE}={chosen} make clean-cluster" if chosen else "make clean-cluster"
    if chosen == "current":  # somebody else's: only what the demo has put there goes
        clean = (
            f"kubectl delete namespace {NAMESPACE}\n"
            f"  helm --namespace {staging.OPERATOR_NAMESPACE} uninstall {staging.RELEASE}"
        )
    return f"""
To look further:
  export KUBECONFIG={cluster.kubeconfig}{path}
  kubectl --namespace {NAMESPACE} get ej
  kubectl --namespace {NAMESPACE} events --for elasticjob/{story.JOB}
  kubectl --namespace {NAMESPACE} describe ej {story.JOB}
  kubectl --namespace {NAMESPACE} get configmap {story.JOB}-rendezvous --output=yaml
To clean up:
  {clean}"""


if __name__ == "__main__":
    sys.exit(main())
