"""A namespace, watched: the objects as the API server told of them last, and what happened to the job meanwhile.

One thread a kind lists and watches. Whoever waits for something (`View.wait`) is woken by each event: nothing polls and
nothing sleeps. Reads only.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

from demo.api import Api, UnreachableError
from demo.rounds import History
from elasticjob_rendezvous.round import lease, record

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

    from demo.api import Object

T = TypeVar("T")
KINDS = {
    "configmaps": "/api/v1/namespaces/{}/configmaps",
    "leases": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "pods": "/api/v1/namespaces/{}/pods",
    "elasticjobs": "/apis/elasticjob.dev/v1alpha1/namespaces/{}/elasticjobs",
}

RETRY_SECONDS = 0.3
"""Between two tries to reach an API server that is away."""


class WaitError(Exception):
    """What was waited for did not come."""


class View:
    """Everything that is watched in one namespace, and the history of one job in it."""

    def __init__(self, kubeconfig: pathlib.Path, *, namespace: str, job: str) -> None:
        self.namespace = namespace
        self.job = job
        self.history = History()
        self.objects: dict[str, dict[str, Object]] = {kind: {} for kind in KINDS}
        self.exit_codes: dict[str, int] = {}
        """Of the containers of the pods that ended, gone ones too."""
        self.deleted: dict[str, float] = {}
        """When pods were deleted, by name."""
        self.listeners: list[Callable[[str, str, Object, float], None]] = []
        self.impatient: Callable[[str, float], None] = lambda _what, _seconds: None
        """Told about once in a second what is waited for, and for how long by now."""
        self._api = Api(kubeconfig)
        self._changed = threading.Condition(threading.RLock())
        self._stopped = False
        self._responses: dict[str, Any] = {}
        self._failures: list[Exception] = []
        self._threads = [threading.Thread(target=self._follow, args=(kind,), name=kind, daemon=True) for kind in KINDS]

    @contextlib.contextmanager
    def watched(self) -> Iterator[View]:
        """Watch for as long as the block lasts."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop()

    def _stop(self) -> None:
        self._stopped = True
        for response in self._responses.values():
            with contextlib.suppress(OSError, ValueError):  # it ended by itself just now
                response.shutdown()
        for thread in self._threads:
            thread.join(timeout=5)

    def wait(self, what: str, find: Callable[[], T | None], *, seconds: float) -> T:
        """The first true answer of *find*, asked again after each event.

        Raises:
            WaitError: there was none within *seconds*.
            Exception: what a watch found to be wrong with the product (see `History`).
        """
        began = time.monotonic()
        with self._changed:
            while True:
                if self._failures:
                    raise self._failures[0]
                if found := find():
                    return found
                waited = time.monotonic() - began
                if waited > seconds:
                    raise WaitError(f"waited {seconds:g} s for {what}, in vain")
                self.impatient(what, waited)
                self._changed.wait(min(seconds - waited, 1.0) + 0.001)  # not for ever: Ctrl-C must get through

    def _follow(self, kind: str) -> None:
        while not self._stopped and self._watch_once(kind):
            pass

    def _watch_once(self, kind: str) -> bool:
        """Watch until the watch ends; whether to go on with another."""
        try:
            self._list_and_watch(kind)
        except UnreachableError:
            time.sleep(RETRY_SECONDS)
        except Exception as error:  # noqa: BLE001 - it belongs to the waiting thread, which raises it
            with self._changed:
                self._failures.append(error)
                self._changed.notify_all()
            return False
        return True

    def _list_and_watch(self, kind: str) -> None:
        path = KINDS[kind].format(self.namespace)
        listed = self._api.get(path)
        gone = dict(self.objects[kind])
        for one in listed["items"]:
            gone.pop(one["metadata"]["name"], None)
            self._see(kind, "MODIFIED", one)
        for one in gone.values():
            self._see(kind, "DELETED", one)
        version = listed["metadata"]["resourceVersion"]

        def opened(response: Any) -> None:
            self._responses[kind] = response

        for event in self._api.events(path, resource_version=version, opened=opened):
            if event["type"] == "ERROR":
                return
            self._see(kind, event["type"], event["object"])

    def _see(self, kind: str, event: str, one: Object) -> None:
        at = time.monotonic()
        name = one["metadata"]["name"]
        with self._changed:
            if event == "DELETED":
                self.objects[kind].pop(name, None)
                if kind == "pods":
                    self.deleted[name] = at
            else:
                self.objects[kind][name] = one
                self._record(kind, one, at)
            for listener in self.listeners:
                listener(kind, event, one, at)
            self._changed.notify_all()

    def _record(self, kind: str, one: Object, at: float) -> None:
        if kind == "configmaps" and one["metadata"]["name"] == f"{self.job}-rendezvous":
            text = (one.get("data") or {}).get(record.KEY)
            if text:
                self.history.see_record(record.parse(text), at)
        if kind == "leases" and (one["metadata"].get("labels") or {}).get(lease.JOB_LABEL) == self.job:
            self.history.see_lease(slot_lease(one), at)
        if kind == "pods" and (code := exit_code(one)) is not None:
            self.exit_codes[one["metadata"]["name"]] = code


def slot_lease(one: Object) -> lease.SlotLease:
    """The Lease of a slot, as the product reads it."""
    metadata = one["metadata"]
    holder = one.get("spec", {}).get("holderIdentity")
    return lease.parse(int(metadata["labels"][lease.SLOT_LABEL]), holder, metadata.get("annotations"))


def exit_code(pod: Object) -> int | None:
    """The exit code of the pod's first container; ``None`` while it runs."""
    for status in pod.get("status", {}).get("containerStatuses", ())[:1]:
        ended = status["state"].get("terminated")
        if ended:
            return int(ended["exitCode"])
    return None
