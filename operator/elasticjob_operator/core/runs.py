"""Jobs whose agents tell the operator nothing, which is every backend but ``kubernetes``: their pods speak for them.

Here a pod that runs counts as arrived, and one that has succeeded as finished; with Leases made up of that, the other
policies hold unchanged, and the operator writes the seal itself. A *run* is one group of pods that can meet: an agent
that fails closes torch's rendezvous for all, and some losses end a group too. Then all pods start anew, as a next run.
"""

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping

from elasticjob_operator.api.spec import Spec
from elasticjob_operator.core import places, sizing
from elasticjob_operator.core.observed import Observed
from elasticjob_operator.core.pods import Pod
from elasticjob_operator.core.situation import Situation, Step
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.lease import SlotLease
from elasticjob_rendezvous.round.record import Member, Phase, Record

GONE = "gone-"
"""Before the nonce of a member of whose pod nothing is left, where a Lease has its pod's UID."""


def filled(observed: Observed, wish: Spec) -> Observed:
    """*observed* with the Leases that the job's pods stand for, and with those pods marked whose run is over.

    A run that is over stays the present one until the status says so (``status.restarts``): a failure that is counted
    in the same status is then counted once, whatever crashes in between.
    """
    if wish.rendezvous.told:
        return observed
    run = observed.job.status.restarts
    mine = [pod for pod in observed.pods if pod.run == run]
    spent = {pod.uid for pod in observed.pods if pod.run != run} | set(_fallen(mine, observed))
    pods = tuple(dataclasses.replace(pod, spent=pod.uid in spent) for pod in observed.pods)
    record = observed.round.record
    return dataclasses.replace(
        observed,
        pods=pods,
        leases=_leases(pods, record),
        run_over=_over(wish, mine, record),
    )


def step(situation: Situation) -> Step | None:
    """Write what agents would: that the waited-for pods run, and that one of them has succeeded."""
    record = situation.record
    if situation.spec.rendezvous.told:
        return None
    if record.phase is Phase.SEALED and situation.finished:
        return Step(changing.finishing(record))
    if record.phase is not Phase.OPEN or situation.target != record.plan:
        return None
    here = {
        slot: lease
        for slot, lease in situation.observed.leases.items()
        if lease.arrived == record.number and (lease.finished or situation.observed.holder_lives(slot))
    }
    if not record.plan - record.absent <= here.keys() or len(here) < situation.spec.min_nodes:
        return None
    members = [Member(slot, here[slot].nonce) for slot in sorted(here.keys() & record.plan)]
    return Step(changing.sealed(record, members, _store(situation))) if members else None


def may_start(situation: Situation, slot: int) -> bool:
    """Whether a pod of this slot would find its peers: those of the last run are gone, and where to meet is there."""
    observed, rendezvous = situation.observed, situation.spec.rendezvous
    if rendezvous.told:
        return True
    if observed.run_over or any(pod.spent and not pod.terminal for pod in observed.pods):
        return False
    if rendezvous.etcd_managed and not (observed.etcd and observed.etcd.ready):
        return False
    return not rendezvous.hosted or slot == 0 or any(pod.started for pod in observed.live.get(0, ()))


def nonce(uid: str) -> str:
    """What stands for a pod's agent in the record."""
    return hashlib.sha256(uid.encode()).hexdigest()[:8]


def _fallen(mine: list[Pod], observed: Observed) -> Iterator[str]:
    """Failed pods of a run beyond the one that ended it: they fell with it, and count for nothing."""
    failed = sorted((p for p in mine if _failed(p)), key=lambda p: (p.uid not in observed.job.status.counted, p.slot))
    yield from (pod.uid for pod in failed[1:])


def _failed(pod: Pod) -> bool:
    return pod.phase == "Failed" and not pod.deleting and not pod.disrupted


def _over(wish: Spec, mine: list[Pod], record: Record | None) -> bool:
    """Whether the run's group can't go on: somebody failed, or somebody is gone without whom there is none."""
    if not mine:
        return False
    if any(map(_failed, mine)):
        return True
    here = {pod.slot for pod in mine if pod.live or (pod.phase == "Succeeded" and not pod.deleting)}
    going = {pod.slot for pod in mine if (pod.deleting and pod.started) or pod.disrupted}
    members = record.member_slots & record.plan if record is not None and record.running else frozenset()
    if members and (not sizing.wanted(wish).nodes or not members & here):
        return True
    return bool(_needed(wish, mine, members) & ((members - here) | going))


def _needed(wish: Spec, mine: list[Pod], members: frozenset[int]) -> frozenset[int]:
    """Slots without which the group is over. Once one has succeeded nobody could meet those that are left."""
    whole = frozenset(pod.slot for pod in mine) | members
    if not wish.rendezvous.elastic or any(pod.phase == "Succeeded" for pod in mine):
        return whole
    return whole & {0} if wish.rendezvous.hosted else frozenset()


def _leases(pods: tuple[Pod, ...], record: Record | None) -> Mapping[int, SlotLease]:
    """Of each slot its living pod's, else its succeeded one's, else any other's; else that of a member that is gone."""
    found: dict[int, SlotLease] = {}
    for pod in sorted(pods, key=lambda p: (not p.live, p.phase != "Succeeded", p.created, p.number), reverse=True):
        if not pod.spent:
            found[pod.slot] = _lease(pod, record)
    there = {nonce(pod.uid) for pod in pods}
    for member in record.members if record is not None and record.running else ():
        if member.nonce not in there:
            found.setdefault(member.slot, SlotLease(member.slot, pod=GONE + member.nonce, nonce=member.nonce))
    return found


def _lease(pod: Pod, record: Record | None) -> SlotLease:
    number, sealed = (record.number, record.sealed) if record else (0, 0)
    own = nonce(pod.uid)
    parks = record is not None and record.running and Member(pod.slot, own) not in record.members
    done = pod.phase == "Succeeded"
    return SlotLease(
        pod.slot,
        pod=pod.uid,
        nonce=own,
        arrived=number + parks if pod.started or done else 0,
        seen=number,
        finished=max(sealed, 1) if done else 0,
    )


def _store(situation: Situation) -> str:
    """The record has to name one; the agents have theirs from their environment."""
    found = places.endpoint(situation.observed.job, situation.spec.rendezvous)
    return "kubernetes.default.svc:443" if situation.spec.rendezvous.uses_api else found
