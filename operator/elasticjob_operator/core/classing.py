"""Whose doing a failure is. What the job's own policy says of an exit code comes first; what is left is judged by what
is usual for it.
"""

import signal

from elasticjob_operator.api.failures import SIGNALLED, FailureClass, FailurePolicy, shell_code
from elasticjob_operator.core.pods import Pod

_FROM_OUTSIDE = frozenset(SIGNALLED + number for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGBUS))
"""A program does not kill or end itself so, and a bus error is memory or a disk that went away."""

_LOST = frozenset({"ContainerStatusUnknown", "Unknown"})
"""Reasons of a container that ended in nobody's sight: its machine did. The first is the kubelet's, with 137; the other
containerd's, with 255, for a container that was running before its machine was started anew.
"""

OUT_OF_MEMORY = "OOMKilled"
"""The kubelet's reason: more memory than the container may have. It will need as much again, so it is the program's."""


def of_pod(pod: Pod, policy: FailurePolicy) -> FailureClass:
    """The class of a pod that has failed. One of which no container has ended was refused by its cluster node."""
    if pod.disrupted:
        return FailureClass.PREEMPTION
    if pod.exit_code is None or pod.reason in _LOST:
        return FailureClass.INFRASTRUCTURE
    return of_code(pod.exit_code, policy, out_of_memory=pod.reason == OUT_OF_MEMORY)


def of_code(code: int, policy: FailurePolicy, *, out_of_memory: bool) -> FailureClass:
    """The class of a process that ended with this code."""
    outside = shell_code(code) in _FROM_OUTSIDE and not out_of_memory
    return _named(code, policy) or (FailureClass.INFRASTRUCTURE if outside else FailureClass.USER_ERROR)


def _named(code: int, policy: FailurePolicy) -> FailureClass | None:
    return next((rule.what for rule in policy.exit_codes if shell_code(code) in rule.codes), None)
