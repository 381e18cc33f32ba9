"""What to look at when something went wrong: the tail of every log, the record, the objects. Gathers; judges nothing.

Nothing here may hide the failure that it was called for: what can't be had is named and left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demo.story import Kubectl

LINES = 40
"""Last lines of a log that are shown."""


def gather(kubectl: Kubectl, *, namespace: str, operator_namespace: str) -> Iterator[str]:
    """Sections of text, one after the other."""
    here, there = ("--namespace", namespace), ("--namespace", operator_namespace)
    for title, arguments in (
        ("objects", (*here, "get", "elasticjobs,pods,leases,configmaps,persistentvolumeclaims", "--output=wide")),
        ("the job", (*here, "get", "elasticjobs", "--output=yaml")),
        ("round record", (*here, "get", "configmaps", "--selector=elasticjob.dev/job-name", "--output=yaml")),
        ("Leases", (*here, "get", "leases", "--output=yaml")),
        ("events", (*here, "events")),
        ("operator's pods", (*there, "get", "pods", "--output=wide")),
    ):
        yield _section(title, kubectl, *arguments)
    yield from _logs(kubectl, *there)
    yield from _logs(kubectl, *there, before=True)
    yield from _logs(kubectl, *here)


def _logs(kubectl: Kubectl, *where: str, before: bool = False) -> Iterator[str]:
    """The end of each pod's log; *before*: of what ran before its container was restarted, if it was."""
    try:
        names = kubectl(*where, "get", "pods", "--output=name").split()
    except ClusterError as error:
        names = []
        yield f"pods can't be listed: {error}"
    for name in names:
        title = f"log of {name}, before its last restart" if before else f"log of {name}"
        which = ("--previous",) if before else ()
        yield _section(title, kubectl, *where, "logs", name, f"--tail={LINES}", *which)


def _section(title: str, kubectl: Kubectl, *arguments: str) -> str:
    try:
        text = kubectl(*arguments)
    except ClusterError as error:
        text = str(error)
    return f"--- {title}\n{text.rstrip()}"
