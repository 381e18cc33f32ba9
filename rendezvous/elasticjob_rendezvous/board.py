"""The job's round record as this process sees it: one ConfigMap, watched, written by compare-and-set.

A record that can't be read is a *problem*, never an empty board; one that goes back in its number is not believed.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

from elasticjob_rendezvous import events, kube, mirror
from elasticjob_rendezvous.round import lease, record

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("elasticjob_rendezvous")


@dataclasses.dataclass(frozen=True)
class View:
    """What was read: the record and the object it stood in. Without a record, ``problem`` says why."""

    record: record.Record | None = None
    body: kube.Object | None = None
    problem: str = ""
    other_run: str = ""
    """Where the record is that of another run under the same name: its id."""
    over: bool = False
    """Whether that run is closed."""
    newer: bool = False
    """Whether others understand the record and this process does not."""


class Board:
    """One job's round record."""

    def __init__(self, api: kube.Api, *, job_name: str, job: str, nonce: str, changed: Callable[[], None]) -> None:
        self.name = f"{job_name}-rendezvous"
        self.highest = 0
        """The highest round number that this process has seen."""
        self._api, self._job_name, self._job, self._nonce = api, job_name, job, nonce
        self._writes = 0
        self._view = View(problem="not read yet")
        self._mirror = mirror.Mirror(
            api, kube.CONFIG_MAP, {"fieldSelector": f"metadata.name={self.name}"}, self._changed(changed)
        )

    def start(self) -> None:
        self._mirror.start()

    def stop(self) -> None:
        self._mirror.stop()

    @property
    def synced(self) -> bool:
        """Whether the API was reached at least once."""
        return self._mirror.synced

    @property
    def trouble(self) -> kube.KubeError | None:
        """What keeps the record from being read at present."""
        return self._mirror.trouble

    @property
    def view(self) -> View:
        return self._view

    def refresh(self) -> View:
        """Reads the object itself, for a watch may have gone quiet."""
        body = self._api.get(kube.CONFIG_MAP, self.name)
        if body is not None:
            self._mirror.put(body)
        return self._view

    def write(self, over: View, new: record.Record) -> bool:
        """Whether *new* now stands where *over* stood. False is a lost race: read again and decide again.

        Raises:
            KubeError: the write had no outcome, and whether it was made could not be found out either.
        """
        if new.number < self.highest:
            raise ValueError(f"round numbers only grow: {new.number} after {self.highest}")
        self._writes += 1
        new = dataclasses.replace(new, writer=f"{self._nonce}.{self._writes}")
        try:
            body = self._put(over, new)
        except kube.UnreachableError:
            body = self._api.get(kube.CONFIG_MAP, self.name)
            if body is None or self._parse(body).writer != new.writer:
                return False
        if body is None:
            self.refresh()
            return False
        self._mirror.put(body)
        return True

    def _put(self, over: View, new: record.Record) -> kube.Object | None:
        data = {record.KEY: record.dump(new)}
        if over.body is None:
            labels = {lease.JOB_LABEL: self._job_name, lease.MANAGED_BY_LABEL: lease.MANAGED_BY}
            return self._api.create(kube.CONFIG_MAP, {"metadata": {"name": self.name, "labels": labels}, "data": data})
        metadata = {k: v for k, v in over.body["metadata"].items() if k != "managedFields"}
        return self._api.replace(
            kube.CONFIG_MAP, {**over.body, "metadata": metadata, "data": {**(over.body.get("data") or {}), **data}}
        )

    def _changed(self, tell: Callable[[], None]) -> Callable[[], None]:
        def changed() -> None:
            self._look()
            tell()

        return changed

    def _look(self) -> None:
        seen = self._mirror.objects.get(self.name)
        if seen is None:
            self._view = View(problem=f"there is no ConfigMap {self.name}")
        elif self._view.body is None or self._view.body["metadata"]["resourceVersion"] != seen.version:
            self._view = self._believed(seen.body)

    def _believed(self, body: kube.Object) -> View:
        try:
            found = self._parse(body)
        except record.RecordError as error:
            events.refused("record", f"ConfigMap {self.name}: {error}")
            return View(body=body, problem=str(error), newer=isinstance(error, record.NewerError))
        if found.job != self._job:
            problem = f"ConfigMap {self.name} belongs to another job: {found.job!r}"
            return View(body=body, problem=problem, other_run=found.job, over=found.phase is record.Phase.CLOSED)
        if found.number < self.highest:
            problem = f"ConfigMap {self.name} went back to round {found.number} after {self.highest}"
            events.refused("record", problem)
            return View(body=body, problem=problem)
        self.highest = found.number
        return View(record=found, body=body)

    def _parse(self, body: kube.Object) -> record.Record:
        return record.parse((body.get("data") or {}).get(record.KEY, ""))
