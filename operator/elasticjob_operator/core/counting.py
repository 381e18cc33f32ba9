"""The job's counters: each pod is counted once, by its UID, whatever is replayed.

A pod that failed by itself counts as a failure; one that was deleted, evicted or preempted as a disruption; one that a
resize or the job's end took away not at all. A UID stays on the list for as long as anything in the API names it.
"""

import dataclasses
from collections.abc import Iterable, Iterator

from elasticjob_operator.api import status, times
from elasticjob_operator.core.observed import Observed
from elasticjob_operator.core.pods import Pod
from elasticjob_rendezvous.round.record import Phase, Record

NEVER_JOINED = "the pod ended without an error and without having joined a round: does its command run torchrun?"


@dataclasses.dataclass(frozen=True)
class Counters:
    """The counters as they are now. ``failed`` are the pods that were added this time."""

    failed_pods: int
    disruptions: int
    counted: tuple[str, ...]
    failures: int
    last_failure: status.Failure | None
    failed: tuple[Pod, ...] = ()
    lost: tuple[str, ...] = ()


def count(observed: Observed, record: Record, now: int) -> Counters:
    """The job's counters, with what is seen for the first time."""
    before = observed.job.status
    known = set(before.counted)
    ending = record.phase is Phase.CLOSED
    done = frozenset(observed.lease(m.slot).pod for m in observed.finished(record))
    still = () if ending else tuple(p for p in observed.pods if p.slot in record.plan and p.uid not in done)
    failed = tuple(p for p in still if p.uid not in known and _failed(observed, p))
    gone = () if ending else _gone(observed, record, done)
    lost = tuple(sorted({*_disrupted(still), *gone} - known - {p.uid for p in failed}))
    failed_pods = before.failed_pods + len(failed)
    return Counters(
        failed_pods=failed_pods,
        disruptions=before.disruptions + len(lost),
        counted=_remembered(observed, known | {p.uid for p in failed} | set(lost)),
        failures=record.failures + failed_pods,
        last_failure=_last(observed, record, failed, now),
        failed=failed,
        lost=lost,
    )


def _failed(observed: Observed, pod: Pod) -> bool:
    if pod.deleting or pod.disrupted:
        return False
    never_joined = pod.phase == "Succeeded" and not observed.lease(pod.slot).seen and not _sent_away(observed, pod)
    return pod.phase == "Failed" or never_joined


def _sent_away(observed: Observed, pod: Pod) -> bool:
    """Whether the plan has changed since the pod was made: it may have gone because it was not wanted just then."""
    resize, created = observed.job.status.last_resize, times.parse(pod.created)
    return resize is not None and created is not None and created <= resize.start


def _disrupted(pods: Iterable[Pod]) -> Iterator[str]:
    for pod in pods:
        if (pod.deleting and pod.started) or (pod.phase == "Failed" and pod.disrupted):
            yield pod.uid


def _gone(observed: Observed, record: Record, done: frozenset[str]) -> Iterator[str]:
    """Holders of planned slots of whose pods nothing else is left."""
    for slot in record.plan:
        holder = observed.lease(slot).pod
        if holder and holder not in observed.by_uid and holder not in done:
            yield holder


def _remembered(observed: Observed, uids: set[str]) -> tuple[str, ...]:
    named = observed.by_uid.keys() | {lease.pod for lease in observed.leases.values()}
    return tuple(sorted(uids & named))


def _last(observed: Observed, record: Record, failed: tuple[Pod, ...], now: int) -> status.Failure | None:
    before = observed.job.status
    if failed:
        pod = failed[0]
        code = pod.exit_code if pod.exit_code is not None else 1
        message = pod.message or (NEVER_JOINED if pod.phase == "Succeeded" else f"exit code {code}")
        return status.Failure(slot=pod.slot, pod=pod.name, exit_code=code, message=message[:1024], time=now)
    reports = [(lease.failure, slot) for slot, lease in observed.leases.items() if lease.failure]
    if record.failures <= before.failures - before.failed_pods or not reports:
        return before.last_failure
    failure, slot = max(reports, key=lambda report: (report[0].round, -report[1]))
    return status.Failure(slot=slot, exit_code=failure.exit_code, message=failure.message, time=now)
