"""Which pods to make and which to take away: one living pod in every slot of the plan, none elsewhere.

Pods that have ended are kept as far as they tell something: a finished job's, and the last that failed.
"""

import itertools
from collections.abc import Iterator

from elasticjob_operator.core import avoiding, building, forsaking, leaving, runs
from elasticjob_operator.core.actions import Action, Create, DeletePod
from elasticjob_operator.core.pods import Pod
from elasticjob_operator.core.situation import Situation

FAILED_KEPT = 2
"""Failed pods kept for their logs while a job goes on: the last, and the one before to compare."""

LEAVING_SECONDS = 60
"""A pod that is not wanted any more ends by itself; after so long it is deleted: twice what torchrun takes to stop."""

BACKOFF_BASE, BACKOFF_MOST = 5, 300
"""Seconds before a failed pod is replaced: none for the first failure, then 5, doubling, up to 5 minutes."""


def actions(situation: Situation, *, resized: int | None) -> Iterator[Action]:
    """Pods to make and to delete, for a round that is written already.

    *resized* is when the plan last changed.
    """
    yield from forsaking.given_up(situation)
    yield from leaving.evacuated(situation)
    yield from _spent(situation)
    yield from _surplus(situation, resized)
    yield from _old(situation)
    wait, done = backoff(situation), situation.finished
    if situation.spec.rendezvous.told:  # the next pod might take the Lease that alone tells of the one before
        done |= situation.uncounted
    avoid = avoiding.avoided(avoiding.remembered(situation))
    fresh = building.digest(situation.spec.template, avoid)
    for slot in sorted(situation.record.plan):
        living = situation.observed.live.get(slot, ())
        yield from _duplicates(living)
        if living:
            yield from _outdated(living[0], fresh)
        elif not wait and slot not in done and runs.may_start(situation, slot):
            yield Create("Pod", _next_pod(situation, slot, avoid))


def backoff(situation: Situation) -> int:
    """Seconds until pods are made again: a job whose pods keep failing must not fill the cluster with them."""
    counters, last = situation.counters, situation.counters.last_failure
    count = counters.failed_pods - counters.refilled.pods
    if count < 2 or last is None or not last.pod:  # noqa: PLR2004 - the first failure is replaced at once
        return 0
    pause = min(BACKOFF_BASE << min(count - 2, 10), BACKOFF_MOST)
    return max(0, pause - situation.since(last.time))


def overstays(situation: Situation) -> Iterator[int]:
    """Seconds until pods are taken away whose trainer has ended, and which other containers keep."""
    for pod in situation.observed.pods:
        if pod.trainer_ended is not None and not pod.deleting:
            yield LEAVING_SECONDS - situation.since(pod.trainer_ended)


def overstayed(situation: Situation, pod: Pod) -> bool:
    """Whether other containers have kept a pod for too long whose trainer has ended; not before that is counted."""
    if pod.trainer_ended is None or pod.uid in situation.counters.fresh:
        return False
    return situation.since(pod.trainer_ended) >= LEAVING_SECONDS


def _next_pod(situation: Situation, slot: int, avoid: tuple[str, ...]) -> dict[str, object]:
    observed = situation.observed
    number = next(n for n in itertools.count() if (slot, n) not in observed.used)
    near, given = observed.installation.packing, observed.allocation
    firm = given is not None and given.firm and not given.dry_run
    return building.pod(observed.job, situation.spec, slot, number, avoid, near=near, firm=firm)


def _spent(situation: Situation) -> Iterator[Action]:
    for pod in situation.observed.pods:
        if pod.spent and pod.stays:
            yield DeletePod(pod.name, pod.uid, "all nodes start anew")


def _surplus(situation: Situation, resized: int | None) -> Iterator[Action]:
    """Pods outside of the plan. Agents that are told so end by themselves."""
    told = situation.spec.rendezvous.told
    late = not told or resized is None or situation.since(resized) >= LEAVING_SECONDS
    for pod in situation.observed.pods:
        if pod.slot not in situation.record.plan and not pod.deleting and (late or pod.terminal or not pod.started):
            yield DeletePod(pod.name, pod.uid, f"node {pod.slot} is not wanted any more")


def _old(situation: Situation) -> Iterator[Action]:
    """Ended pods of the plan that nobody needs: beyond the last failed ones, and only when they have been counted."""
    counted = set(situation.status.counted)
    ended = [p for p in situation.observed.pods if p.terminal and not p.deleting and p.slot in situation.record.plan]
    failed = sorted((p for p in ended if p.phase == "Failed"), key=lambda p: (p.created, p.name))
    for place, pod in enumerate(failed, FAILED_KEPT - len(failed)):
        if place < 0 and (pod.uid in counted or pod.disrupted or pod.spent):
            yield DeletePod(pod.name, pod.uid, "a later pod failed too")
        elif overstayed(situation, pod):
            yield DeletePod(pod.name, pod.uid, "its trainer has ended, and its other containers have not")
    for pod in ended:
        known = pod.uid in counted or situation.observed.lease(pod.slot).seen
        unfinished = known and pod.slot not in situation.finished
        if pod.phase == "Succeeded" and (unfinished or overstayed(situation, pod)):
            yield DeletePod(pod.name, pod.uid, "it ended, but the job did not")


def _duplicates(living: tuple[Pod, ...]) -> Iterator[Action]:
    for pod in living[1:]:
        yield DeletePod(pod.name, pod.uid, f"{living[0].name} holds its place")


def _outdated(pod: Pod, fresh: str) -> Iterator[Action]:
    """A pod that has never run does not keep a template, or places to avoid, that are others meanwhile.

    Only the digest of the template is compared, never the pod: what webhooks change in it is no reason to make it anew,
    and one that takes the digest away leaves nothing to compare.
    """
    if not pod.started and pod.template not in ("", fresh):
        yield DeletePod(pod.name, pod.uid, "the template has changed before it started")
