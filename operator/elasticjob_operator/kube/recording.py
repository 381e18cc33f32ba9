"""Events, written after everything else: a lost one costs nothing but a line in ``kubectl describe``."""

import asyncio
import logging
import secrets
import time
from typing import Any

from elasticjob_operator.api import job as jobs
from elasticjob_operator.api import names, times
from elasticjob_operator.core.actions import Event
from elasticjob_operator.kube import errors
from elasticjob_operator.kube.client import Client
from elasticjob_operator.kube.queue import Key

CONTROLLER = f"{names.GROUP}/operator"
MAX_NOTE = 1024
"""Bytes: of an event with more the API server takes nothing."""

REPEAT_SECONDS = 300.0
"""So long a job's event is not repeated in the same words: what comes and goes must not flood ``kubectl describe``."""

logger = logging.getLogger(__name__)


class Recorder:
    """Writes events. The same words about the same job are written again only after a while."""

    def __init__(self, client: Client, *, instance: str) -> None:
        self._client = client
        self._instance = instance
        self._told: dict[Key, dict[tuple[str, Event], float]] = {}

    async def record(self, job: jobs.Job, event: Event) -> None:
        """Write one event; a failure to do so is logged and nothing more."""
        now = asyncio.get_running_loop().time()
        told = self._told.setdefault(Key(job.namespace, job.name), {})
        if told.get((job.uid, event), now) > now:
            return
        for old in [what for what, until in told.items() if until <= now]:
            del told[old]
        told[job.uid, event] = now + REPEAT_SECONDS
        level = logging.WARNING if event.warning else logging.INFO
        logger.log(level, "%s/%s: %s: %r", job.namespace, job.name, event.reason, event.message)
        made = manifest(job, event, instance=self._instance, name=f"{job.name}.{secrets.token_hex(8)}")
        try:
            await self._client.create("Event", made)
        except errors.ApiError as error:
            logger.debug("event not written: %s", error)

    def forget(self, key: Key) -> None:
        """The job is gone."""
        self._told.pop(key, None)


def manifest(job: jobs.Job, event: Event, *, instance: str, name: str) -> dict[str, Any]:
    """The event's object."""
    now = times.exact(time.time())
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": job.namespace},
        "eventTime": now,
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:128],
        "action": event.reason,
        "reason": event.reason,
        "note": event.message.encode(errors="replace")[:MAX_NOTE].decode(errors="ignore"),
        "type": "Warning" if event.warning else "Normal",
        "regarding": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "namespace": job.namespace,
            "name": job.name,
            "uid": job.uid,
        },
    }
