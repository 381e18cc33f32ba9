"""One look at one job: read all, decide, carry out, write the status once, tell. And those who look, for ever."""

import asyncio
import logging
import time
from typing import Any

from elasticjob_operator.api import status
from elasticjob_operator.core import deciding
from elasticjob_operator.core.actions import Event
from elasticjob_operator.kube import errors, recording
from elasticjob_operator.kube.applying import Applier
from elasticjob_operator.kube.client import Client
from elasticjob_operator.kube.metrics import Metrics
from elasticjob_operator.kube.noticing import Notice
from elasticjob_operator.kube.queue import Key, Queue
from elasticjob_operator.kube.reading import Reader, Reading
from elasticjob_operator.kube.stopwatch import Stopwatch

FEW = 300
"""So many jobs are all looked at in each interval; of more, those that were not for as many seconds as there are."""

BUG = "OperatorBug"
"""The event of a job that can't be decided on; the traceback is in the operator's log."""

logger = logging.getLogger(__name__)


class Reconciler:
    """Brings jobs to what they ask for. Nothing that matters is kept between two looks: a new process goes on."""

    def __init__(
        self,
        client: Client,
        queue: Queue,
        reader: Reader,
        applier: Applier,
        *,
        instance: str,
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client
        self._queue = queue
        self._reader = reader
        self._applier = applier
        self._stopwatch = Stopwatch(metrics or Metrics())
        self._recorder = recording.Recorder(client, instance=instance)

    async def work(self) -> None:
        """Take keys from the queue, for ever. A failure is one key's: it comes back later, the others go on."""
        while True:
            key = await self._queue.get()
            try:
                await self._attempt(key)
            finally:
                self._queue.done(key)

    async def _attempt(self, key: Key) -> None:
        try:
            done = await self.reconcile(key)
        except errors.EndingError:
            logger.info("%s/%s: its namespace is being deleted", *key)
        except errors.ConflictError as error:
            seconds = self._queue.retry(key)
            logger.debug("%s/%s: lost a race, again in %.1f s: %s", *key, seconds, error)
        except errors.ApiError as error:
            seconds = self._queue.retry(key, least=error.retry_after or 0.0)
            logger.warning("%s/%s: again in %.1f s: %s", *key, seconds, error)
        except Exception:  # a bug that one job brings out must not stop the others
            seconds = self._queue.retry(key)
            logger.exception("%s/%s: failed, again in %.1f s", *key, seconds)
        else:
            if done:
                self._queue.forgive(key)
            else:
                self._queue.retry(key)

    async def reconcile(self, key: Key) -> bool:
        """One look; whether nothing stood in the way."""
        reading = await self._reader.read(key)
        if reading is None:
            self._queue.forget(key)
            self._stopwatch.forget(key)
            self._recorder.forget(key)
            return True
        job, now = reading.observed.job, int(time.time())
        try:
            decision = deciding.decide(reading.observed, now)
        except Exception as error:  # whoever has made the job does not see the log
            await self._recorder.record(
                job, Event(BUG, f"a bug keeps this job from being looked at: {error!r}", warning=True)
            )
            raise
        problems = await self._applier.apply(job, decision.actions)
        if problems:
            self._reader.forget(job)
            decision = deciding.decide(reading.observed, now, problems)
        if trains := self._stopwatch.look(key, reading.observed):
            await self._recorder.record(job, trains)
        if await self._write_status(reading, decision.status):
            self._stopwatch.count(job.status, decision.status)
            for event in decision.events:
                await self._recorder.record(job, event)
        if decision.wake_after is not None:
            self._queue.add(key, decision.wake_after)
        return not problems

    async def _write_status(self, reading: Reading, new: status.Status) -> bool:
        """Write the status if it has changed; whether it has."""
        if new == reading.observed.job.status:
            return False
        before = reading.job.get("status")
        data = status.unknown(before) | status.dump(new)
        if data == before:
            return False
        await self._client.replace("ElasticJob", {**reading.job, "status": data}, sub="status")
        return True


async def relist(client: Client, queue: Queue, notice: Notice, watched: tuple[str, ...], seconds: float) -> None:
    """Look at every job now and then, whether an event told of it or not. Returns if the watch has gone blind:

    if it has missed the same change of a spec twice, and so for a whole interval. With very many jobs one that has been
    looked at lately is passed over, so that in the long run there is no more than one such look a second.
    """
    missed: set[str] = set()
    known: set[Key] = set()
    while True:
        listed = [await _listed(client, namespace) for namespace in watched or (None,)]
        jobs = [job for found in listed for job in found or ()]
        keys = {Key(job["metadata"]["namespace"], job["metadata"]["name"]) for job in jobs}
        for key in keys | known:  # who looks for one that is gone forgets it
            if len(keys) <= FEW or queue.idle(key) >= len(keys):
                queue.add(key)
        known = keys | (known if None in listed else set())
        before, missed = missed, notice.missed({j["metadata"]["uid"]: j["metadata"]["generation"] for j in jobs})
        if before & missed:
            logger.critical("the watch of ElasticJobs has told nothing of %d changes", len(before & missed))
            return
        notice.prune(None if None in listed else keys)
        await asyncio.sleep(seconds)


async def _listed(client: Client, namespace: str | None) -> list[dict[str, Any]] | None:
    """The jobs of a namespace; ``None`` where they can't be had: another's are looked at all the same."""
    try:
        return await client.list("ElasticJob", namespace)
    except errors.ApiError as error:
        logger.warning("could not list the jobs%s: %s", f" of {namespace}" if namespace else "", error)
        return None
