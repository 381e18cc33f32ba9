"""The job's counters: each pod is counted once, by its UID, and each round that its workers ended once, by the round's
own counter; whatever is replayed.

A pod that was deleted, evicted or preempted counts as a disruption; one that a resize or the job's end took away not at
all. What failed by itself counts by its class. A UID stays on the list for as long as anything in the API names it.
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Iterator

from elasticjob_operator.api import status, times
from elasticjob_operator.api.failures import FailureClass, FailurePolicy
from elasticjob_operator.core import budgets, classing, describing, pausing
from elasticjob_operator.core.observed import Observed
from elasticjob_operator.core.pods import Pod
from elasticjob_rendezvous.round.lease import SlotLease
from elasticjob_rendezvous.round.record import Phase, Record


@dataclasses.dataclass(frozen=True)
class Counters:
    """The counters as they are now. ``failed`` and ``lost`` are the pods that were added this time.

    ``new_failure`` is what ended the last round since the status was written, where workers did.
    """

    failed_rounds: int
    failed_pods: int
    failures: int
    infrastructure: int
    disruptions: int
    counted: tuple[str, ...]
    refilled: status.Spent
    last_failure: status.Failure | None
    new_failure: status.Failure | None = None
    failed: tuple[Pod, ...] = ()
    lost: tuple[str, ...] = ()

    @functools.cached_property
    def fresh(self) -> frozenset[str]:
        """UIDs of the pods that were added: until the status says so, only what names them tells of them."""
        return frozenset(pod.uid for pod in self.failed) | frozenset(self.lost)

    @property
    def spent(self) -> status.Spent:
        """The counters that have budgets."""
        return status.Spent(self.failures, self.infrastructure, self.disruptions, self.failed_pods)


def count(observed: Observed, record: Record, policy: FailurePolicy, now: int) -> Counters:
    """The job's counters, with what is seen for the first time."""
    before = observed.job.status
    known = set(before.counted)
    ending = record.phase is Phase.CLOSED
    done = frozenset(lease.pod for lease in observed.leases.values() if lease.finished)
    ours = (p for p in observed.pods if p.slot in record.plan and p.uid not in done and not p.spent)
    still = () if ending else tuple(ours)
    ended = tuple(p for p in still if p.uid not in known and _failed(observed, p))
    classes = {pod.uid: classing.of_pod(pod, policy) for pod in ended}
    failed = tuple(p for p in ended if classes[p.uid] is not FailureClass.PREEMPTION)
    gone = () if ending else _gone(observed, record, done)
    lost = tuple(sorted({*_disrupted(observed, still), *gone, *classes} - known - {p.uid for p in failed}))
    failed_rounds = max(record.failures + pausing.ahead(observed, record), before.failed_rounds)
    rounds = failed_rounds - before.failed_rounds
    worker = describing.worker_failure(observed, record, policy, now) if rounds else None
    told = Counter(classes[pod.uid] for pod in failed)
    told[worker.what if worker else FailureClass.USER_ERROR] += rounds
    counters = Counters(
        failed_rounds=failed_rounds,
        failed_pods=before.failed_pods + len(failed),
        failures=before.failures + told[FailureClass.USER_ERROR] + told[FailureClass.FATAL],
        infrastructure=before.infrastructure + told[FailureClass.INFRASTRUCTURE],
        disruptions=before.disruptions + len(lost) + told[FailureClass.PREEMPTION],
        counted=_remembered(observed, known | {p.uid for p in failed} | set(lost) | _dismissed(observed, record)),
        refilled=before.refilled,
        last_failure=_last(before, worker, failed, classes, now),
        new_failure=worker,
        failed=failed,
        lost=lost,
    )
    refilled = budgets.refilled(before, counters.spent, observed.progress, policy)
    return dataclasses.replace(counters, refilled=refilled)


def _failed(observed: Observed, pod: Pod) -> bool:
    if pod.deleting or pod.disrupted:
        return False
    never_joined = pod.phase == "Succeeded" and not observed.lease(pod.slot).seen and not _sent_away(observed, pod)
    return pod.phase == "Failed" or never_joined


def _sent_away(observed: Observed, pod: Pod) -> bool:
    """Whether the plan has changed since the pod was made: it may have gone because it was not wanted just then."""
    resize, created = observed.job.status.last_resize, times.parse(pod.created)
    return resize is not None and created is not None and created <= resize.start


def _disrupted(observed: Observed, pods: Iterable[Pod]) -> Iterator[str]:
    for pod in pods:
        taken_away = pod.deleting and (pod.started or _joined(observed.lease(pod.slot), pod))
        if taken_away or (pod.phase == "Failed" and pod.disrupted):
            yield pod.uid


def _joined(lease: SlotLease, pod: Pod) -> bool:
    """Whether the pod's process has ever held the slot, as far as its Lease tells."""
    return pod.uid == lease.left or (pod.uid == lease.pod and lease.arrived > 0 and pod.phase != "Succeeded")


def _gone(observed: Observed, record: Record, done: frozenset[str]) -> Iterator[str]:
    """Holders of planned slots, and those who left them though they were wanted, of whose pods nothing else is left."""
    for lease in map(observed.lease, record.plan):
        yield from (uid for uid in (lease.pod, lease.left) if uid and uid not in observed.by_uid and uid not in done)


def _dismissed(observed: Observed, record: Record) -> set[str]:
    """Pods that end because they are not wanted: if their slot is wanted again meanwhile, they still don't count."""
    ending = {p.uid for p in observed.pods if p.slot not in record.plan and (p.deleting or p.terminal)}
    return ending | {lease.left for slot, lease in observed.leases.items() if slot not in record.plan}


def _remembered(observed: Observed, uids: set[str]) -> tuple[str, ...]:
    named = observed.by_uid.keys() | {
        uid for lease in observed.leases.values() for uid in (lease.pod, lease.left) if uid
    }
    return tuple(sorted(uids & named))


def _last(
    before: status.Status,
    worker: status.Failure | None,
    failed: tuple[Pod, ...],
    classes: dict[str, FailureClass],
    now: int,
) -> status.Failure | None:
    """A fatal failure first, since the job ends by it; then a pod's, which tells more than a worker's."""
    found = [describing.pod_failure(pod, classes[pod.uid], now) for pod in failed]
    found += [worker] if worker else []
    return next((one for one in found if one.what is FailureClass.FATAL), found[0] if found else before.last_failure)
