"""Events, written after everything else: a lost one costs nothing but a line in ``kubectl describe``."""

import datetime as dt
import logging
import secrets
from typing import Any

from elasticjob_operator.api import job as jobs
from elasticjob_operator.api import names
from elasticjob_operator.core.actions import Event
from elasticjob_operator.kube import errors
from elasticjob_operator.kube.client import Client

CONTROLLER = f"{names.GROUP}/operator"
MAX_NOTE = 1024

logger = logging.getLogger(__name__)


async def record(client: Client, job: jobs.Job, event: Event, *, instance: str) -> None:
    """Write one event; a failure to do so is logged and nothing more."""
    level = logging.WARNING if event.warning else logging.INFO
    logger.log(level, "%s/%s: %s: %r", job.namespace, job.name, event.reason, event.message)
    try:
        await client.create("Event", manifest(job, event, instance=instance, name=f"{job.name}.{secrets.token_hex(8)}"))
    except errors.ApiError as error:
        logger.debug("event not written: %s", error)


def manifest(job: jobs.Job, event: Event, *, instance: str, name: str) -> dict[str, Any]:
    """The event's object."""
    now = dt.datetime.now(tz=dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": job.namespace},
        "eventTime": now,
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:128],
        "action": event.reason,
        "reason": event.reason,
        "note": event.message[:MAX_NOTE],
        "type": "Warning" if event.warning else "Normal",
        "regarding": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "namespace": job.namespace,
            "name": job.name,
            "uid": job.uid,
        },
    }
