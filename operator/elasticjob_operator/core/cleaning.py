"""What becomes of a job that is over: of its pods, by ``cleanPodPolicy``, and of itself, after its time to live."""

from collections.abc import Iterator

from elasticjob_operator.api.spec import CleanPods, Spec
from elasticjob_operator.api.status import Status
from elasticjob_operator.core import replacing
from elasticjob_operator.core.actions import Action, DeletePod
from elasticjob_operator.core.pods import Pod
from elasticjob_operator.core.situation import Situation


def actions(situation: Situation, closed: int | None) -> Iterator[Action]:
    """Pods to delete once the round is closed, *closed* being when that was. Those that run end by themselves first."""
    late = not situation.spec.rendezvous.told or situation.since(closed) >= replacing.LEAVING_SECONDS
    for pod in situation.observed.pods:
        if not pod.deleting and _goes(situation, pod, late=late):
            yield DeletePod(pod.name, pod.uid, "the job is over")


def _goes(situation: Situation, pod: Pod, *, late: bool) -> bool:
    policy = situation.spec.clean_pods
    if pod.terminal and policy is CleanPods.ALL:
        return True
    if pod.stays and not pod.started:
        return True  # it would only wait for a place, or for its image, to learn that it is not needed
    return policy is not CleanPods.NONE and ((pod.stays and late) or replacing.overstayed(situation, pod))


def over(situation: Situation, closed: int | None) -> bool:
    """Whether a closed job's pods have ended, or are left as they are."""
    left = situation.spec.clean_pods is CleanPods.NONE and situation.since(closed) >= replacing.LEAVING_SECONDS
    return left or not any(pod.stays for pod in situation.observed.pods)


def time_to_live(status: Status, spec: Spec | str, now: int) -> int | None:
    """Seconds until the finished job itself is deleted; ``None`` if it is not to be."""
    if isinstance(spec, str) or spec.ttl is None or not status.finished or status.completion_time is None:
        return None
    return max(0, status.completion_time + spec.ttl - now)
