"""Texts under keys of one ConfigMap, written only over the version that was read.

For torch's own dynamic handler (``kubernetes-dynamic``), whose state and stores' addresses they are; the round protocol
of the backend ``kubernetes`` uses none of it. Rides out an API server that does not answer, up to a bound.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from elasticjob_rendezvous import kube

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

PAUSE = 0.5
"""Seconds between two tries while the API server does not answer."""


class Texts:
    """The ConfigMap *name*. ``version`` is its ``resourceVersion``, ``""`` where it does not exist."""

    def __init__(self, api: kube.Api, name: str, *, patience: float) -> None:
        """*patience* is how long, in seconds, an API server that does not answer is asked again."""
        self._api, self._name, self._patience = api, name, patience
        self._body: kube.Object = {}

    @property
    def version(self) -> str:
        """Of what was read or written last."""
        return str(self._body.get("metadata", {}).get("resourceVersion", ""))

    @property
    def data(self) -> dict[str, str]:
        """What was read or written last."""
        return dict(self._body.get("data") or {})

    def read(self) -> dict[str, str]:
        """All texts as they are now.

        Raises:
            kube.KubeError: they can't be read.
        """
        self._body = self._insist(lambda: self._api.get(kube.CONFIG_MAP, self._name) or {})
        return self.data

    def write(self, data: Mapping[str, str]) -> bool:
        """Replace all texts, if they are still those read last; whether they were.

        A reply that is lost is no answer: what is there is read again, and a write of ours recognised.

        Raises:
            kube.KubeError: they can't be written.
        """
        before, lost = self.version, False

        def attempt() -> bool:
            nonlocal lost
            if lost:
                now = self._api.get(kube.CONFIG_MAP, self._name) or {}
                if (now.get("data") or {}) == data:
                    self._body = now
                    return True
            lost = True
            written = self._put(before, dict(data))
            self._body = written or self._body
            return written is not None

        return self._insist(attempt)

    def _put(self, before: str, data: dict[str, str]) -> kube.Object | None:
        if not before:
            return self._api.create(kube.CONFIG_MAP, {"metadata": {"name": self._name}, "data": data})
        return self._api.replace(kube.CONFIG_MAP, {**self._body, "data": data})

    def _insist(self, call: Callable[[], T]) -> T:
        until = time.monotonic() + self._patience
        while True:
            try:
                return call()
            except kube.UnreachableError as error:
                pause = max(PAUSE, error.retry_after)
                if time.monotonic() + pause > until:
                    raise
                time.sleep(pause)
