"""Events: what a person wants to have been told, once, when the status changes. A repeated reconcile tells nothing."""

from collections.abc import Iterator

from elasticjob_operator.api import conditions, status, words
from elasticjob_operator.api.job import Job
from elasticjob_operator.core import (
    allocating,
    building,
    classing,
    describing,
    forsaking,
    leaving,
    noticing,
    sizing,
)
from elasticjob_operator.core.actions import Event, Problem
from elasticjob_operator.core.situation import Situation
from elasticjob_rendezvous.round import slots
from elasticjob_rendezvous.round.record import Phase, Reason, Record

_PULLING = {"ErrImagePull", "ImagePullBackOff"}
"""What the kubelet says in turn of an image that can't be pulled."""


def events(situation: Situation, new: status.Status, problems: tuple[Problem, ...], error: str) -> Iterator[Event]:
    """What has changed from the status that was read to *new*. *error* says why the round could not be read."""
    if error:
        yield Event(
            "RoundUnreadable",
            f"the round's ConfigMap was replaced, because it could not be read: {error}",
            warning=True,
        )
    yield from _template(situation)
    yield from _round(situation, new)
    yield from _pods(situation)
    if new.restarts != situation.status.restarts:
        yield Event("GroupRestarted", "this group can't go on; all its pods start anew", warning=True)
    yield from _notices(situation, new)
    yield from _resize(situation.status, new)
    yield from problem(situation.observed.job, *problems[:1])
    yield from _trouble(situation, new)
    yield from allocating.events(situation.status, new)
    yield from _suspension(situation.status, new)
    yield from end(situation.status, new)


def _template(situation: Situation) -> Iterator[Event]:
    job = situation.observed.job
    if job.generation == job.status.observed_generation:
        return
    if flags := building.overriding(situation.spec):
        message = (
            f"the command gives torchrun {', '.join(flags)} in place of what the operator tells it: leave that out"
        )
        yield Event("CommandOverrides", message, warning=True)
    if names := building.overridden(situation.spec):
        message = f"spec.template sets {', '.join(names)}, which the operator sets; its own values are used"
        yield Event("EnvironmentOverridden", message, warning=True)


def _round(situation: Situation, new: status.Status) -> Iterator[Event]:
    old, record = situation.status, situation.record
    if record.phase is Phase.CLOSED or (old.round, old.round_phase) == (new.round, new.round_phase):
        return
    if record.reason is Reason.STATE_LOST and old.round != new.round:
        message = f"the round's state was lost; round {record.number} starts with whoever is there"
        yield Event("StateLost", message, warning=True)
    if record.phase is Phase.OPEN and record.plan:
        yield Event("RoundOpened", _opened(record))
    elif record.phase is Phase.SEALED:
        nodes = f"{words.counted(len(record.members), 'node')} ({slots.dump(record.member_slots)})"
        yield Event("RoundSealed", f"round {record.number} has {nodes}; opened because: {record.reason.value}")


def _opened(record: Record) -> str:
    without = f", without {slots.dump(record.absent)}" if record.absent else ""
    return f"round {record.number} is open for {words.nodes(record.plan)}{without}: {record.reason.value}"


def _pods(situation: Situation) -> Iterator[Event]:
    policy = situation.spec.failure_policy
    for pod in situation.counters.failed:
        failure = describing.pod_failure(pod, classing.of_pod(pod, policy), situation.now)
        yield Event("PodFailed", describing.whole(failure), warning=True)
    if situation.counters.new_failure is not None:
        yield Event("WorkersFailed", describing.whole(situation.counters.new_failure), warning=True)
    for uid in situation.counters.lost:
        yield Event("PodLost", _lost(situation, uid), warning=True)


def _lost(situation: Situation, uid: str) -> str:
    """A pod by its name; of one that is gone without a trace, its node's Lease still has the UID."""
    pod = situation.observed.by_uid.get(uid)
    if pod is not None:
        return f"{pod.name} is lost"
    slot = next((slot for slot, lease in situation.observed.leases.items() if lease.pod == uid), None)
    if slot is None:
        return f"the pod with UID {uid} is lost: it was deleted"
    return f"node {slot}'s pod {situation.observed.job.name}-{slot}-* is lost: it was deleted"


def _notices(situation: Situation, new: status.Status) -> Iterator[Event]:
    for gone in forsaking.given_up(situation):
        yield Event("PodGivenUp", f"{gone.name} is given up: {gone.why}", warning=True)
    notice = situation.record.notice
    if notice is None or new.notice_time == situation.status.notice_time:
        return
    if noticing.purpose(notice) == noticing.STACKS:
        seconds = situation.spec.failure_policy.progress_deadline
        message = (
            f"no progress for {seconds} s: the workers' stacks go into their pods' logs, then the group starts again"
        )
        yield Event("NoProgress", message, warning=True)
    if noticing.purpose(notice) != noticing.LEAVING:
        return
    found = {pod.node: situation.observed.cluster_nodes[pod.node] for pod in leaving.restless(situation)}
    why = ", ".join(f"{name} ({node.leaving or 'cordoned'})" for name, node in sorted(found.items()))
    yield Event("ClusterNodeLeaving", f"a checkpoint is asked for, because cluster nodes may go: {why}"[:1024])


def _resize(old: status.Status, new: status.Status) -> Iterator[Event]:
    resize = new.last_resize
    if resize is None or resize == old.last_resize:
        return
    sizes = f"from {words.counted(resize.before, 'node')} to {resize.after}"
    if new.resizes != old.resizes:
        yield Event("ResizeStarted", f"the job is resized {sizes}: {sizing.told(resize.reason)}")
    if resize.end is not None:
        yield Event("ResizeCompleted", f"the job was resized {sizes} in {resize.end - resize.start} s")


def _suspension(old: status.Status, new: status.Status) -> Iterator[Event]:
    before, now = (conditions.find(s.conditions, conditions.SUSPENDED) for s in (old, new))
    if now and now.holds and not (before and before.holds):
        yield Event("Suspended", f"the job has no pods: {sizing.told(now.reason)}")
    elif before and before.holds and now and not now.holds:
        yield Event("Resumed", f"the job starts again with {words.counted(new.wanted, 'node')}")


def problem(job: Job, *found: Problem) -> Iterator[Event]:
    """What the API server refuses, when it is not what it has refused before, of this very spec."""
    before = conditions.find(job.status.conditions, conditions.PODS_READY)
    for one in found:
        if before is None or (before.reason, before.generation) != (one.reason, job.generation):
            yield Event(one.reason, one.message[:1024], warning=True)


def _trouble(situation: Situation, new: status.Status) -> Iterator[Event]:
    """What keeps pods from starting, in their own words, each time that it is something else."""
    before, now = (conditions.find(s.conditions, conditions.PODS_READY) for s in (situation.status, new))
    etcd = situation.observed.etcd
    own = {pod.trouble for pod in (*situation.observed.pods, *([etcd] if etcd else ()))} - {""}
    if now is None or now.holds or now.reason not in own:
        return
    same = before is not None and not before.holds and {before.reason, now.reason} in ({now.reason}, _PULLING)
    if not same:
        yield Event(now.reason, now.message, warning=True)


def end(old: status.Status, new: status.Status) -> Iterator[Event]:
    """How the job has ended, once."""
    for kind in (conditions.SUCCEEDED, conditions.FAILED):
        found = conditions.find(new.conditions, kind)
        if found and found.holds and not old.holds(kind):
            yield Event(kind, new.end_message, warning=kind == conditions.FAILED)
