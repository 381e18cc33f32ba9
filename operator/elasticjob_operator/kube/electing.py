"""Taking turns: of several operators one works, by a Lease of their own.

Nothing rests on it but that work is not done twice: every write that matters is compare-and-set, by name, or by UID.
Whether the holder is alive is judged by how long *I* have seen its Lease unchanged, on my own monotonic clock; whoever
can't renew for that long stops before another may start.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from elasticjob_operator.api import names, times
from elasticjob_operator.kube import errors
from elasticjob_operator.kube.client import Client

NAME = "elasticjob-operator"

HELD_SECONDS = 15.0
"""A Lease that stood still for so long is free: the usual figure of Kubernetes' own controllers."""

RENEW_SECONDS = 5.0
"""Between two renewals: a third, so that one may fail."""

GIVE_UP_SECONDS = 10.0
"""Without a renewal for so long the holder stops: well before another may take over."""

CALL_SECONDS = 4.0
"""For one request of the election."""

logger = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")


class Elector:
    """One candidate."""

    def __init__(self, client: Client, *, namespace: str, identity: str) -> None:
        self._client = client
        self._namespace = namespace
        self._identity = identity
        self._renewed = 0.0
        """When the last write that succeeded was sent: others count from when it arrived."""
        self.leads = False

    async def acquire(self) -> None:
        """Wait until it is this candidate's turn."""
        seen: object = None
        since = 0.0
        while not self.leads:
            try:
                found = await self._read()
                now = asyncio.get_running_loop().time()
                if (mark := _mark(found)) != seen:
                    seen, since = mark, now
                if not _holder(found) or _holder(found) == self._identity or now - since >= HELD_SECONDS:
                    self.leads = await self._write(found)
                elif since == now:
                    logger.info("waiting: %s works", _holder(found))
            except errors.ApiError as error:
                logger.warning("election: %s", error)
            if not self.leads:
                await asyncio.sleep(RENEW_SECONDS / 2)
        logger.info("working as %s", self._identity)

    async def keep(self) -> None:
        """Renew for as long as this candidate leads; returns when it does no more."""
        loop = asyncio.get_running_loop()
        while loop.time() - self._renewed < GIVE_UP_SECONDS:
            await asyncio.sleep(RENEW_SECONDS if loop.time() - self._renewed < RENEW_SECONDS else 1.0)
            try:
                async with asyncio.timeout_at(self._renewed + GIVE_UP_SECONDS):
                    found = await self._read()
                    if _holder(found) != self._identity:
                        logger.error("another operator has taken over: %s", _holder(found) or "nobody yet")
                        break
                    await self._write(found)
            except TimeoutError:
                logger.warning("election: not renewed for %.0f s", GIVE_UP_SECONDS)
            except errors.ApiError as error:
                logger.warning("election: %s", error)
        self.leads = False

    async def release(self) -> None:
        """Let the next one start at once; one that can't be told waits until the Lease has stood still."""
        try:
            found = await self._read()
            if found is not None and _holder(found) == self._identity:
                found["spec"] = {**found["spec"], "holderIdentity": ""}
                await self._client.replace("Lease", found)
        except errors.ApiError as error:
            logger.info("the election's Lease was not released: %s", error)

    async def _read(self) -> dict[str, Any] | None:
        return await _in_time(self._client.get("Lease", self._namespace, NAME))

    async def _write(self, found: dict[str, Any] | None) -> bool:
        """Take or renew the Lease as it was read; whether that has worked."""
        now, sent = times.exact(time.time()), asyncio.get_running_loop().time()
        old = (found or {}).get("spec") or {}
        mine = old.get("holderIdentity") == self._identity
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(HELD_SECONDS),
            "renewTime": now,
            "acquireTime": old.get("acquireTime", now) if mine else now,
            "leaseTransitions": old.get("leaseTransitions", 0) + (0 if mine else 1),
        }
        try:
            if found is None:
                await _in_time(self._client.create("Lease", {**_empty(self._namespace), "spec": spec}))
            else:
                await _in_time(self._client.replace("Lease", {**found, "spec": spec}))
        except errors.ConflictError:
            return False
        self._renewed = sent
        return True


async def _in_time(call: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Raises ``errors.UnavailableError`` where the answer is late: one that is slow must not end the operator."""
    try:
        return await asyncio.wait_for(call, CALL_SECONDS + 1)
    except TimeoutError as error:
        raise errors.UnavailableError(0, f"no answer within {CALL_SECONDS + 1:.0f} s") from error


def _empty(namespace: str) -> dict[str, Any]:
    labels = {names.MANAGED_BY_LABEL: names.MANAGED_BY}  # our own watch sees it: a sign of life of the watch
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "namespace": namespace, "labels": labels},
    }


def _holder(found: dict[str, Any] | None) -> str:
    return str(((found or {}).get("spec") or {}).get("holderIdentity") or "")


def _mark(found: dict[str, Any] | None) -> object:
    return (found or {}).get("metadata", {}).get("resourceVersion")
