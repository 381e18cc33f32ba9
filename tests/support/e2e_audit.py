"""What the audit log of a local cluster tells about the product: who asked for what, and what was refused."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from demo import staging
from support import audit

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable, Iterator

INTRUDER = "elasticjob-intruder"
"""The user agent of requests that are made to be refused."""

OPERATOR = f"system:serviceaccount:{staging.OPERATOR_NAMESPACE}:elasticjob"

OURS = re.compile(rf"system:serviceaccount:({staging.OPERATOR_NAMESPACE}:.*|.*-worker)")
"""Who belongs to the product: the operator and the jobs' workers."""


def requests(audit_log: pathlib.Path) -> Iterator[dict[str, Any]]:
    """What was asked for in the product's name so far."""
    return (entry for entry in audit.entries(audit_log) if OURS.fullmatch(audit.user(entry)))


def users(audit_log: pathlib.Path) -> set[str]:
    return {audit.user(event) for event in requests(audit_log)}


def writes_of(audit_log: pathlib.Path, pod: str, *, since: datetime | None = None) -> list[str]:
    """What a pod's own token, which names the pod's UID, has written."""
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in audit.entries(audit_log, naming=pod)
        if pod in event["user"].get("extra", {}).get("authentication.kubernetes.io/pod-uid", ())
        and event["verb"] not in ("get", "list", "watch")
        and 200 <= audit.code(event) < 300
        and (since is None or datetime.fromisoformat(event["requestReceivedTimestamp"]) > since)
    ]


def refused(audit_log: pathlib.Path, outages: Iterable[tuple[datetime, datetime]]) -> list[str]:
    """What the product tried and was not allowed to.

    An API server that starts answers 403 to everybody until it has read the roles, which its `/readyz` waits for: what
    was asked during *outages* does not count.
    """
    return [
        f"{audit.user(event)} {event['verb']} {event['requestURI']}"
        for event in requests(audit_log)
        if event.get("userAgent") != INTRUDER
        and audit.unauthorized(event)
        and not any(
            began <= datetime.fromisoformat(event["requestReceivedTimestamp"]) <= ended for began, ended in outages
        )
    ]
