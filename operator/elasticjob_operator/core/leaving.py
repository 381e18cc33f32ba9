"""Cluster nodes are about to be taken from a job that trains: a checkpoint first, then its pods may go.

A drain begins with a cordon, and evicts at once. Each job's PodDisruptionBudget holds evictions back until the workers
have been asked for a checkpoint and have answered, or had their time; then it lets them through (``shielding``). A
cordon alone costs a checkpoint and nothing more: pods are taken away by the operator itself only where a taint says
that the machine goes in any case, a spot instance called back, say. What then happens is what happens to any lost pod.
"""

from collections.abc import Iterator

from elasticjob_operator.core import noticing
from elasticjob_operator.core.actions import DeletePod
from elasticjob_operator.core.pods import Pod
from elasticjob_operator.core.situation import Situation, Step
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Phase


def step(situation: Situation) -> Step | None:
    """Ask for the checkpoint; nothing more once it is there."""
    record = situation.record
    if record.phase is not Phase.SEALED or cleared(situation) or not any(restless(situation)):
        return None
    if record.notice is None:
        return Step(changing.noticed(record, noticing.notice(situation, noticing.LEAVING)))
    return Step(wake_after=max(1, noticing.left(situation)))


def restless(situation: Situation) -> Iterator[Pod]:
    """Live pods of the plan on cluster nodes that may go."""
    for pod in situation.observed.pods:
        node = situation.observed.cluster_nodes.get(pod.node)
        if node is not None and node.restless and pod.live and pod.slot in situation.record.plan:
            yield pod


def cleared(situation: Situation) -> bool:
    """Whether nothing would be lost that a checkpoint could save: pods may be evicted."""
    if situation.record.phase is not Phase.SEALED or not noticing.asks(situation):
        return True
    return noticing.answered(situation)


def evacuated(situation: Situation) -> Iterator[DeletePod]:
    """Pods that end before their machine does."""
    if not cleared(situation):
        return
    for pod in restless(situation):
        taint = situation.observed.cluster_nodes[pod.node].leaving
        if taint:
            yield DeletePod(pod.name, pod.uid, f"its cluster node {pod.node} goes: {taint}")
