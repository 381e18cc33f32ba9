"""Some objects of the API kept in memory: one watch from the beginning, for as long as somebody needs them.

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
"""Seconds before what failed is tried again: doubled each time, with jitter."""


class Pauses:
    """The pauses of one who tries again until it works."""

    def __init__(self) -> None:
        self._most = FIRST_PAUSE

    def reset(self) -> None:
        """It worked: the next failure is the first one."""
        self._most = FIRST_PAUSE

    def next(self) -> float:
        """Seconds to wait before the next try."""
        seconds = self._most * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret
        self._most = min(self._most * 2, LONGEST_PAUSE)
        return seconds


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
        self._told = 0
        """The version up to which the server has told everything: a watch brings its events in the versions' order."""
        self._put: dict[str, Seen] = {}
        """What was put in since the last list was asked for: that list may be older."""
        self._stopped = threading.Event()
        self.synced = False
        """Whether the objects were listed at least once."""
        self.trouble: kube.KubeError | None = None
        """What keeps it from knowing the objects, from the first failure until they are listed again."""

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

        A reply may be looked at after the watch has told what came later, and a watch may be behind a reply. Whichever
        comes second, the older version is passed over.
        """
        name = body["metadata"]["name"]
        with self._lock:
            if _version(body) <= self._told or self._is_later(name, body):
                return
            self._put[name] = self._objects[name] = Seen(body, time.monotonic())
        self._changed()

    def refresh(self) -> None:
        """Lists the objects anew, for a watch may have gone quiet. What was deleted is left to the watch."""
        for body in self._api.list(self._kind, self._selector)[0]:
            self.put(body)

    def _run(self) -> None:
        pauses = Pauses()
        while not self._stopped.is_set():
            started = time.monotonic()
            wish = 0.0
            try:
                self._list_and_watch()
            except kube.GoneError:
                logger.info("watch of %s: history lost, listing again", self._kind.plural)
            except kube.UnreachableError as error:
                wish, self.trouble = error.retry_after, error
                logger.warning("%s", error)
            except kube.KubeError as error:
                wish, self.trouble = LONGEST_PAUSE, error
                logger.error("%s", error)  # noqa: TRY400 - the message tells all, a traceback nothing
            except Exception:  # a thread that dies silently would leave a blind agent
                logger.exception("watch of %s failed", self._kind.plural)
            if time.monotonic() - started > LONGEST_PAUSE:
                pauses.reset()
            self._stopped.wait(max(wish, pauses.next()))

    def _list_and_watch(self) -> None:
        with self._lock:
            self._put = {}
        version = ""
        while not self._stopped.is_set():
            started = time.monotonic()
            for event, body in self._api.watch(self._kind, self._selector, version):
                if self._stopped.is_set():
                    return
                version = body["metadata"]["resourceVersion"]
                if event == kube.LISTED:
                    self._listed(body["items"], int(version))
                else:
                    self._hear(event, body)
            if time.monotonic() - started < FIRST_PAUSE:  # a server that ends every watch at once
                raise kube.UnreachableError(f"watch of {self._kind.plural}: ended at once")

    def _listed(self, items: list[kube.Object], version: int) -> None:
        """A list is believed even where its versions went back: etcd may have been restored from a backup."""
        now = time.monotonic()
        with self._lock:
            found = {}
            for body in items:
                name, known = body["metadata"]["name"], self._objects.get(body["metadata"]["name"])
                same = known is not None and _version(known.body) == _version(body)
                found[name] = known if known is not None and same else Seen(body, now)
            newer = {name: seen for name, seen in self._put.items() if _version(seen.body) > version}
            self._objects, self._told, self.synced, self.trouble = {**found, **newer}, version, True, None
        self._changed()

    def _hear(self, event: str, body: kube.Object) -> None:
        name = body["metadata"].get("name", "")
        with self._lock:
            self._told = _version(body)
            if event == "BOOKMARK" or self._is_later(name, body):
                return
            if event == "DELETED":
                self._objects.pop(name, None)
            else:
                self._objects[name] = Seen(body, time.monotonic())
        self._changed()

    def _is_later(self, name: str, body: kube.Object) -> bool:
        """Whether what is known of *name* is *body* or came after it."""
        known = self._objects.get(name)
        return known is not None and _version(known.body) >= _version(body)


def _version(body: kube.Object) -> int:
    """Versions of one kind of object are whole numbers in the order of their writes: the API promises it since 1.35."""
    return int(body["metadata"]["resourceVersion"])
