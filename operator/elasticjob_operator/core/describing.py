"""A failure in words: where, how, and whatever was left behind that says why."""

import re

from elasticjob_operator.api import status
from elasticjob_operator.api.failures import FailureClass, FailurePolicy
from elasticjob_operator.core import classing
from elasticjob_operator.core.observed import Observed
from elasticjob_operator.core.pods import Pod
from elasticjob_rendezvous.round.record import Record

NEVER_JOINED = "the pod ended without an error and without having joined a round: does its command run torchrun?"
NO_PROGRESS = "NoProgress"
"""Reason of a failure that is none of a process: a round that got nowhere."""

_SAYS_NOTHING = re.compile(
    r"[\W_]*$|.*To enable traceback see: |\s*error_file\s*: <N/A>$|[IWEF]\d{4} [\d:.]+ \d+ torch/"
)
"""Lines of torchrun's about a failed worker that say nothing of it: rules, advice, a missing file's name, its log."""

_REPORT, _WITH_FRAMES = "=" * 60, "ChildFailedError"
"""The first line of torchrun's report, and what stands before that where an exception carried it."""

NEEDS_MEMORY = "more memory needed than allowed: raise resources.limits.memory (/dev/shm counts too), or use less"

UNKNOWN = "a worker failed, and its agent could not tell how"

MAX_MESSAGE, MAX_DETAILS = 1024, 2048
"""Characters, as the CRD bounds them. Of details the last ones are kept: a traceback ends with what it is about."""


def pod_failure(pod: Pod, what: FailureClass, now: int) -> status.Failure:
    """What is known of a pod that has failed. The last line of what it left is the one to be told."""
    code = pod.exit_code if pod.exit_code is not None else 1
    lines = _telling(pod.message)
    summary = lines[-1].strip() if lines else NEVER_JOINED if pod.phase == "Succeeded" else f"exit code {code}"
    return status.Failure(
        slot=pod.slot,
        pod=pod.name,
        cluster_node=pod.node,
        exit_code=code,
        reason=pod.reason,
        what=what,
        message=_advised(summary, out_of_memory=pod.reason == classing.OUT_OF_MEMORY)[:MAX_MESSAGE],
        details=ending(pod.message, MAX_DETAILS) if "\n" in pod.message.strip() else "",
        time=now,
    )


def _telling(log: str) -> list[str]:
    """Lines of a log's end of which the last says why: the program's own, before torchrun's report, where there are."""
    own = log.partition(_REPORT)[0]
    for text in ("" if _WITH_FRAMES in own else own, log):
        lines = [line for line in text.splitlines() if not _SAYS_NOTHING.match(line)]
        if lines:
            return lines
    return []


def worker_failure(observed: Observed, record: Record, policy: FailurePolicy, now: int) -> status.Failure:
    """The failure of the worker that failed first: the others of its round mostly fail because it did."""
    last = observed.job.status.last_failure
    if last is not None and last.reason == NO_PROGRESS and last.round == record.sealed - 1:
        return last  # nobody failed: the operator has ended the round
    since = observed.job.status.round - 1  # what ended rounds before is counted already
    reports = [(one.failure, slot) for slot, one in observed.leases.items() if one.failure]
    reports = [(failure, slot) for failure, slot in reports if failure.round >= since]
    if not reports:
        return status.Failure(slot=-1, exit_code=1, message=UNKNOWN, time=now, round=record.sealed)
    failure, slot = min(reports, key=lambda one: (-one[0].round, one[0].time or now, one[1]))
    holder = observed.by_uid.get(observed.lease(slot).pod)
    code = failure.exit_code
    log = f"it left no traceback; kubectl logs {holder.name} says more" if holder else f"exit code {code}"
    return status.Failure(
        slot=slot,
        pod=holder.name if holder else "",
        cluster_node=holder.node if holder else "",
        exit_code=code,
        reason=classing.OUT_OF_MEMORY if failure.out_of_memory else "",
        message=_advised(failure.message or log, out_of_memory=failure.out_of_memory)[:MAX_MESSAGE],
        what=classing.of_code(code, policy, out_of_memory=failure.out_of_memory),
        round=failure.round,
        details=ending(failure.traceback, MAX_DETAILS),
        time=now,
    )


def _advised(message: str, *, out_of_memory: bool) -> str:
    """The message; of a process that the kernel has killed, what to do about it comes first."""
    if not out_of_memory:
        return message
    return NEEDS_MEMORY if message == classing.OUT_OF_MEMORY else f"{NEEDS_MEMORY}: {message}"


def sentence(failure: status.Failure) -> str:
    """One line for a person: where it was and how it ended."""
    where = f"node {failure.slot}" if failure.slot >= 0 else "a node"
    pod = f" ({failure.pod})" if failure.pod else ""
    on = f" on {failure.cluster_node}" if failure.cluster_node else ""
    reason = f", {failure.reason}" if failure.reason else ""
    if failure.reason == NO_PROGRESS:
        return f"the group was stopped [{failure.what.value}]: {failure.message}"
    return (
        f"{where}{pod}{on} failed with exit code {failure.exit_code}{reason} [{failure.what.value}]: {failure.message}"
    )


def pointed(failure: status.Failure) -> str:
    """The line, and where the rest is: what a condition says of a job that goes on, whose status is read with it."""
    line = sentence(failure)
    return f"{line} (more in status.lastFailure.details)" if _more(line, failure) else line


def whole(failure: status.Failure) -> str:
    """The line, and below it as much of the end of the details as an event has room for."""
    return detailed(sentence(failure), failure)


def detailed(line: str, failure: status.Failure) -> str:
    """The *line*, and below it as much of the end of the failure's details as a condition has room for."""
    room = MAX_MESSAGE - len(line) - 1
    more = room > 0 and _more(line, failure)
    return f"{line}\n{ending(failure.details, room)}" if more else line[:MAX_MESSAGE]


def ending(text: str, room: int) -> str:
    """The end of a text, from the beginning of a line if there is one."""
    end = text[-room:]
    return end if end == text or "\n" not in end.rstrip() else end.partition("\n")[2]


def _more(line: str, failure: status.Failure) -> bool:
    """Whether the details tell what the *line* does not."""
    return failure.details.strip() not in line
