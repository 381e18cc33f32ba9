"""The five steps: what is done to the job, and what is waited for. `checks` says what must be true of it.

A step acts through kubectl, as a person would, and looks through the watch. It prints nothing but through `Scene.tell`.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from demo import checks
from demo.watching import slot_lease
from elasticjob_rendezvous.round import lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from demo.api import Object
    from demo.rounds import Round
    from demo.watching import View
    from elasticjob_rendezvous.round.record import Member

T = TypeVar("T")

MANIFEST = pathlib.Path(__file__).parents[2] / "examples" / "digits.yaml"
JOB = "digits"
OPERATOR = "--selector=app.kubernetes.io/name=elasticjob-operator"
"""Finds the operator's Deployment and its pods."""

PATIENCE = 300.0
"""Seconds for anything to come about: many times what it takes, because the machine may be a busy one."""


class Kubectl(Protocol):
    """Runs kubectl as the administrator and returns what it printed."""

    def __call__(self, *arguments: str, input: str | None = None) -> str: ...


@dataclasses.dataclass
class Scene:
    """Where the story plays: a cluster with the operator, a namespace, and what is watched in it."""

    kubectl: Kubectl
    view: View
    operator_namespace: str
    tell: Callable[[str], None] = print
    told: dict[str, float] = dataclasses.field(default_factory=dict)
    """What was measured on the way, in seconds."""

    def run(self, *arguments: str) -> str:
        """Run kubectl in the story's namespace, and say so."""
        self.tell(f"$ kubectl {' '.join(arguments)}")
        return self.kubectl("--namespace", self.view.namespace, *arguments)

    def wait(self, what: str, find: Callable[[], T | None], *, seconds: float = PATIENCE) -> T:
        """Wait for *find*; a job that failed meanwhile is not waited for."""

        def found() -> T | None:
            state = self.status.get("state")
            if state == "Failed":
                raise checks.UnexpectedError("state of the job", expected="anything but Failed", seen=state)
            return find()

        return self.view.wait(what, found, seconds=seconds)

    def wait_round(self, what: str, fits: Callable[[Round], bool]) -> Round:
        """Wait until a round that *fits* has reported its first training step."""

        def find() -> Round | None:
            rounds = [one for one in self.view.history.rounds if one.trained is not None and fits(one)]
            return rounds[0] if rounds else None

        return self.wait(what, find)

    @property
    def current(self) -> Round:
        return self.view.history.current

    @property
    def job(self) -> Object:
        return self.view.objects["elasticjobs"].get(self.view.job, {})

    @property
    def status(self) -> dict[str, Any]:
        """The job's status; empty as long as there is none."""
        return dict(self.job.get("status") or {})

    @property
    def pods(self) -> dict[str, str]:
        """The job's pods by name, with their UIDs."""
        return self.pods_of(self.view.job)

    def pods_of(self, job: str) -> dict[str, str]:
        """The same for any job of the namespace."""
        pods = [pod["metadata"] for pod in self.view.objects["pods"].values()]
        return {pod["name"]: pod["uid"] for pod in pods if (pod.get("labels") or {}).get(lease.JOB_LABEL) == job}

    def pod_of(self, member: Member) -> str:
        """The pod in which *member* runs, by the holder of its slot's Lease; each kind is watched by itself."""

        def find() -> str | None:
            seen = slot_lease(self.view.objects["leases"][f"{self.view.job}-{member.slot}"])
            return next((name for name, uid in self.pods.items() if uid == seen.pod), None)

        return self.wait(f"the pod of slot {member.slot}", find)

    def cluster_node_of(self, member: Member) -> str:
        """The cluster node on which *member* runs."""
        return str(self.view.objects["pods"][self.pod_of(member)]["spec"]["nodeName"])

    def await_operator(self) -> None:
        """Wait until the operator's pod is ready."""
        where = ("--namespace", self.operator_namespace)
        self.kubectl(*where, "rollout", "status", "deployment", OPERATOR, f"--timeout={PATIENCE:g}s")


def start_with_two(scene: Scene) -> Round:
    """Apply the example; its first round, which trains."""
    scene.run("apply", "-f", os.path.relpath(MANIFEST))
    return first_round(scene)


def first_round(scene: Scene) -> Round:
    """The first round, once it trains."""
    first = scene.wait_round("the first training step", lambda _: True)
    checks.started(first)
    return first


def train_with_two(scene: Scene) -> None:
    first = start_with_two(scene)
    scene.wait("a few steps more", lambda: first.last_step > first.first_step)


def grow_to_three(scene: Scene) -> None:
    before, step = scene.current, scene.current.last_step
    scene.run("scale", f"elasticjob/{scene.view.job}", "--replicas=3")
    after = scene.wait_round("a round of three", lambda one: one.number > before.number)
    checks.grown(before, after)
    kept = after.first_step - 1
    checks.at_least("steps trained while the third pod started", expected=1, seen=kept - step)
    scene.tell(f"the first two trained on until the third waited; all resumed from the checkpoint of step {kept}")


def lose_pod(scene: Scene, pod: str) -> float:
    """Delete *pod* without notice; the moment when it was gone."""
    scene.run("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
    return scene.wait("the deletion", lambda: scene.view.deleted.get(pod))


def lose_rank_zero(scene: Scene) -> None:
    before = scene.current
    lost = before.members[0]
    victim = scene.pod_of(lost)
    deleted = lose_pod(scene, victim)
    after = scene.wait_round("the others to train again", lambda one: one.number > before.number)
    scene.told["rank 0's deletion to the round without it"] = (after.sealed or deleted) - deleted
    scene.told["rank 0's deletion to the first step without it"] = (after.trained or deleted) - deleted
    checks.reformed(before, after, lost=lost.nonce)
    whole = scene.wait_round("a round of three again", lambda one: one.number > after.number)
    scene.told["rank 0's deletion to the first step of three again"] = (whole.trained or deleted) - deleted
    checks.replaced(after, whole, lost=lost.nonce)
    successor = next(member for member in whole.members if member.slot == lost.slot)
    rank = whole.members.index(successor)
    scene.tell(f"the pod that replaces it, {scene.pod_of(successor)}, has joined as rank {rank}")


def lose_operator(scene: Scene) -> None:
    before, pods = scene.current, scene.pods
    namespace = ("--namespace", scene.operator_namespace)
    scene.tell(f"$ kubectl {' '.join(namespace)} delete pod {OPERATOR}")
    scene.kubectl(*namespace, "delete", "pod", OPERATOR, "--wait=false")
    scene.await_operator()
    scene.tell("the operator's new pod is ready")
    step = before.last_step
    scene.wait("the training to go on", lambda: before.last_step > step)
    checks.undisturbed(before, scene.current, pods, scene.pods)
    scene.tell(f"still round {before.number}, now at step {before.last_step}")


def shrink_and_finish(scene: Scene) -> None:
    before = scene.current
    members = {scene.pod_of(member) for member in before.members}
    scene.run("scale", f"elasticjob/{scene.view.job}", "--replicas=1")
    alone = scene.wait_round("a round of one", lambda one: one.number > before.number)
    checks.shrunk(before, alone)
    stays = scene.pod_of(alone.members[0])
    scene.run("exec", stays, "--", "touch", "/shared/full-speed")
    scene.wait("the job to succeed", lambda: scene.status.get("state") == "Succeeded")
    scene.wait("all pods to end", lambda: members <= scene.view.exit_codes.keys())
    checks.exited_well(scene.view.exit_codes, members)
    result = checks.result_of(scene.kubectl("--namespace", scene.view.namespace, "logs", stays))
    checks.learned(result)
    scene.tell(
        f"held-out accuracy {result['accuracy']:.2%}; each of {len(result['epochs'])} epochs"
        f" trained each of {result['images']} images exactly once"
    )


@dataclasses.dataclass(frozen=True)
class Step:
    title: str
    play: Callable[[Scene], None]


STEPS = (
    Step("Two pods train on handwritten digits", train_with_two),
    Step("Scaled to three while they train", grow_to_three),
    Step("The pod that is rank 0 is deleted without notice", lose_rank_zero),
    Step("The operator's own pod is deleted", lose_operator),
    Step("Scaled to one, and finished", shrink_and_finish),
)
