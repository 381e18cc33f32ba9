"""What a rendezvous asks of its server: requests and bytes.

Ours are counted by the API server: requests in its audit log, by the ServiceAccount that made them; bytes in its own
metrics of what it read and wrote, watch events included. Those of torch's backends are counted in the client, call by
call on the store or etcd connection, with the sizes of keys and values.
"""

from __future__ import annotations

import dataclasses
import re
import threading
import time
from typing import TYPE_CHECKING, Any

from support import audit

if TYPE_CHECKING:
    from cluster import LocalCluster

_BYTES = re.compile(
    r"^apiserver_(?:response_sizes|watch_events_sizes|request_body_size_bytes)_sum"
    r"\{[^}]*resource=\"(?:configmaps|leases)\"[^}]*\} (\S+)$",
    re.MULTILINE,
)


@dataclasses.dataclass(frozen=True)
class Count:
    """Requests and bytes, both ways."""

    requests: int = 0
    bytes: float = 0.0

    def __add__(self, other: Count) -> Count:
        return Count(self.requests + other.requests, self.bytes + other.bytes)

    def __sub__(self, other: Count) -> Count:
        return Count(self.requests - other.requests, self.bytes - other.bytes)


def asked(cluster: LocalCluster, user: str) -> Count:
    """What *user* has asked so far of the API server, and the bytes of all ConfigMaps and Leases that anybody moved."""
    ids = {entry["auditID"] for entry in audit.entries(cluster.audit_log, naming=user) if audit.user(entry) == user}
    found = _BYTES.findall(cluster.kubectl("get", "--raw", "/metrics"))
    return Count(len(ids), sum(map(float, found)))


def settled(cluster: LocalCluster, user: str) -> Count:
    """As :func:`asked`, once the log has come to rest: it is written a moment after the answer."""
    before = asked(cluster, user)
    for _ in range(10):
        time.sleep(0.2)
        after = asked(cluster, user)
        if after.requests == before.requests:
            break
        before = after
    return after


class Meter:
    """Counts the calls of one process's clients. Its methods are called from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = Count()

    def add(self, *sent: object, received: object = b"") -> None:
        """One request."""
        size = sum(len(part) for part in (*sent, received) if isinstance(part, (str, bytes)))
        with self._lock:
            self.count += Count(1, size)


class CountedStore:
    """A ``torch.distributed.Store`` as torch's c10d backend uses it, every operation counted."""

    def __init__(self, store: Any, meter: Meter) -> None:
        self._store, self._meter = store, meter

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._store, name)

        def counted(*arguments: Any) -> Any:
            answer = operation(*arguments)
            self._meter.add(*arguments, received=answer)
            return answer

        return counted
