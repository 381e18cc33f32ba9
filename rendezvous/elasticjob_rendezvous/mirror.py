"""Some objects of the API kept in memory: one list, then one watch, for as long as somebody needs them.

Knows nothing of what the objects mean. Time is judged by how long *this* process has seen no change, on its own
monotonic clock: the times inside objects are other machines' wall clocks.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import threading
import time
from typing import TYPE_CHECKING

from elasticjob_rendezvous import kube

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

logger = logging.getLogger("elasticjob_rendezvous")

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds before a failed list or watch is tried again: doubled each time, with jitter."""


@dataclasses.dataclass(frozen=True)
class Seen:
    """An object and since when it has stood still, as seen from here."""

    body: kube.Object
    since: float

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])


class Mirror:
    """One selection of objects. ``changed`` is called, from the mirror's thread, after every change."""

    def __init__(self, api: kube.Api, kind: kube.Kind, selector: kube.Selector, changed: Callable[[], None]) -> None:
        self._api, self._kind, self._selector, self._changed = api, kind, selector, changed
        self._lock = threading.Lock()
        self._objects: dict[str, Seen] = {}
        self._awaited: dict[str, str] = {}
        self._stopped = threading.Event()
        self.synced = False
        """Whether the objects were listed at least once."""

    def start(self) -> Mirror:
        threading.Thread(target=self._run, name=f"elasticjob-{self._kind.plural}", daemon=True).start()
        return self

    def stop(self) -> None:
        """No more changes from now. The connection ends with its next event, at the latest with the server's bound."""
        self._stopped.set()

    @property
    def objects(self) -> Mapping[str, Seen]:
        with self._lock:
            return dict(self._objects)

    def put(self, body: kube.Object) -> None:
        """Takes in an object that this process has itself read or written, without waiting for the watch.

        The watch still brings the older versions; they are passed over until it has caught up.
        """
        name, version = body["metadata"]["name"], body["metadata"]["resourceVersion"]
        with self._lock:
            known = self._objects.get(name)
            if known is not None and known.version == version:
                return
            self._objects[name] = Seen(body, time.monotonic())
            self._awaited[name] = version
        self._changed()

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopped.is_set():
            started = time.monotonic()
            wish = 0.0
            try:
                self._list_and_watch()
            except kube.GoneError:
                logger.info("watch of %s: history lost, listing again", self._kind.plural)
            except kube.UnreachableError as error:
                wish = error.retry_after
                logger.warning("%s", error)
            except kube.KubeError as error:
                wish = LONGEST_PAUSE
                logger.error("%s", error)  # noqa: TRY400 - the message tells all, a traceback nothing
            except Exception:  # a thread that dies silently would leave a blind agent
                logger.exception("watch of %s failed", self._kind.plural)
            if time.monotonic() - started > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            self._stopped.wait(max(wish, pause * random.uniform(0.5, 1.0)))  # noqa: S311 - jitter, no secret
            pause = min(pause * 2, LONGEST_PAUSE)

    def _list_and_watch(self) -> None:
        items, version = self._api.list(self._kind, self._selector)
        self._listed(items)
        while not self._stopped.is_set():
            started = time.monotonic()
            for event, body in self._api.watch(self._kind, self._selector, version):
                if self._stopped.is_set():
                    return
                version = body["metadata"]["resourceVersion"]
                if event != "BOOKMARK":
                    self._changed_to(event, body)
            if time.monotonic() - started < FIRST_PAUSE:  # a server that ends every watch at once
                raise kube.UnreachableError(f"watch of {self._kind.plural}: ended at once")

    def _listed(self, items: list[kube.Object]) -> None:
        now = time.monotonic()
        with self._lock:
            found = {}
            for body in items:
                name, version = body["metadata"]["name"], body["metadata"]["resourceVersion"]
                known = self._objects.get(name)
                found[name] = known if known is not None and known.version == version else Seen(body, now)
            self._objects, self._awaited = found, {}
            self.synced = True
        self._changed()

    def _changed_to(self, event: str, body: kube.Object) -> None:
        name, version = body["metadata"]["name"], body["metadata"]["resourceVersion"]
        with self._lock:
            awaited = self._awaited.get(name)
            if awaited is not None and event != "DELETED":
                if awaited == version:
                    del self._awaited[name]
                return
            self._awaited.pop(name, None)
            if event == "DELETED":
                self._objects.pop(name, None)
            else:
                self._objects[name] = Seen(body, time.monotonic())
        self._changed()
