"""Pods on cluster nodes that do not answer: given up, so that their slots can be filled, once it is safe.

Kubernetes waits five minutes more before it even asks such a pod to end, and then for ever, as nobody is there to say
that it has. The pod may still run behind a cut cable. It is given up when it can't do harm any more:

* the round goes on without it, or the others have left the one that it was in: it has nobody to take a step with, and
  what it writes to its slot is refused, for the slot is another's;
* or the machine has been silent for longer than an agent goes on without the API and takes to stop its workers.

While the round counts on it, it is not given up before that: a kubelet may be dead and the training well.
"""

from collections.abc import Iterator

from elasticjob_operator.core.actions import DeletePod
from elasticjob_operator.core.pods import Pod
from elasticjob_operator.core.situation import Situation
from elasticjob_rendezvous.round.record import Phase

GRACE_SECONDS = 10
"""A cluster node may be back at once, its kubelet restarted, say. Kubernetes itself has waited 40 s or more by then."""

FENCE_SECONDS = 160
"""The agents' bound for going on without the API, and the time they take to stop their workers (120 s + 40 s)."""


def given_up(situation: Situation) -> Iterator[DeletePod]:
    """Pods that are removed although nobody can say that they have ended."""
    for pod, left in _unreachable(situation):
        if left <= 0:
            why = f"its cluster node {pod.node} does not answer"
            yield DeletePod(pod.name, pod.uid, why, force=True)


def left(situation: Situation) -> Iterator[int]:
    """Seconds until pods can be given up."""
    return (seconds for _, seconds in _unreachable(situation) if seconds > 0)


def _unreachable(situation: Situation) -> Iterator[tuple[Pod, int]]:
    for pod in situation.observed.pods:
        node = situation.observed.cluster_nodes.get(pod.node)
        if node is None or node.unready_since is None or pod.terminal:
            continue
        wait = GRACE_SECONDS if _harmless(situation, pod) else FENCE_SECONDS
        yield pod, wait - situation.since(node.unready_since)


def _harmless(situation: Situation, pod: Pod) -> bool:
    """Whether its process, should it live, can't take a step of training any more."""
    record, observed = situation.record, situation.observed
    lease = observed.lease(pod.slot)
    member = next((m for m in record.members if m.slot == pod.slot and m.nonce == lease.nonce), None)
    if lease.pod != pod.uid or member is None:
        return True
    others = [m for m in record.members if m != member]
    return record.phase is Phase.OPEN and any(observed.lease(m.slot).arrived > record.sealed for m in others)
