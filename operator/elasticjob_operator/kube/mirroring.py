"""What the autoscaler sees of the cluster, kept in step by list and watch: one mirror a kind, reduced to small values.

kopf's own watches tell of our objects only. Whoever stops hearing lists anew; until then the last picture stands, which
a decision survives: what it gives is checked again by Kubernetes' scheduler.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from elasticjob_operator.kube import errors
from elasticjob_operator.kube.client import Client

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until the API server is asked again after a failure; doubled each time."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Mirror(Generic[T]):
    """All objects of a kind, in one namespace or in all. *told* is called with what an object was and is."""

    def __init__(
        self,
        client: Client,
        kind: str,
        parse: Callable[[Mapping[str, Any]], T | None],
        told: Callable[[T | None, T | None], None],
        *,
        namespace: str | None = None,
        fields: str = "",
    ) -> None:
        self._client = client
        self._kind = kind
        self._parse = parse
        self._told = told
        self._namespace = namespace
        self._query = {"fieldSelector": fields} if fields else {}
        self._version = ""
        self._items: dict[str, T] = {}
        self.ready = asyncio.Event()

    @property
    def items(self) -> tuple[T, ...]:
        """What is there now."""
        return tuple(self._items.values())

    async def run(self) -> None:
        """Keep in step, for ever."""
        pause = FIRST_PAUSE
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                pause = FIRST_PAUSE
            except errors.ApiError as error:
                self._version = ""
                logger.warning("the autoscaler cannot see %ss, again in %.0f s: %s", self._kind, pause, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _list(self) -> None:
        gone, version = set(self._items), ""
        async for page in self._client.pages(self._kind, self._namespace, self._query):
            version = page["metadata"]["resourceVersion"]
            for item in page.get("items") or ():
                gone.discard(item["metadata"]["uid"])
                self._put(item)
        for uid in gone:
            self._drop(uid)
        self._version = version
        self.ready.set()

    async def _watch(self) -> None:
        """Until the server ends it, which it does now and then."""
        async for event in self._client.watch(
            self._kind, self._namespace, {**self._query, "resourceVersion": self._version}
        ):
            item = event["object"]
            if event["type"] == "ERROR":
                raise errors.UnavailableError(int(item.get("code") or 0), str(item.get("message")))
            self._version = item["metadata"]["resourceVersion"]
            if event["type"] == "DELETED":
                self._drop(item["metadata"]["uid"])
            elif event["type"] != "BOOKMARK":
                self._put(item)

    def _put(self, item: Mapping[str, Any]) -> None:
        uid = item["metadata"]["uid"]
        try:
            new = self._parse(item)
        except Exception:  # one object that trips us up must not blind us to all others
            logger.exception("a %s is not understood: %s", self._kind, item["metadata"].get("name"))
            new = None
        if new is None:
            self._drop(uid)
        elif self._items.get(uid) != new:
            old, self._items[uid] = self._items.get(uid), new
            self._told(old, new)

    def _drop(self, uid: str) -> None:
        old = self._items.pop(uid, None)
        if old is not None:
            self._told(old, None)
