"""The Lease of this process's slot: taken, renewed, written and released by one place under one lock.

Knows when it was last surely ours: who can't renew for the fencing bound stops its workers before another may take the
slot. A Lease that another process holds after we held it is lost for good.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import threading
import time
from typing import TYPE_CHECKING, Any

from elasticjob_rendezvous import kube, settings
from elasticjob_rendezvous.round import lease, slots
from elasticjob_rendezvous.round.agent import Sighting

if TYPE_CHECKING:
    from elasticjob_rendezvous.mirror import Seen

_TRIES = 3
"""A write whose version is outdated is repeated so often, as long as the Lease is still ours."""


def name_of(job_name: str, slot: int) -> str:
    """The name of a slot's Lease."""
    return f"{job_name}-{slot}"


def selector(job_name: str) -> kube.Selector:
    """Selects all Leases of a job."""
    return {"labelSelector": f"{lease.JOB_LABEL}={job_name},{lease.SLOT_LABEL}"}


def sighted(seen: Seen, *, default_limit: float) -> Sighting:
    """The Lease in an object, whatever its slot.

    Raises:
        LookupError, ValueError, TypeError: it is no slot's. Any pod of the namespace may have the right to label a
            Lease of its own as another job's; the right to a name it has for its own job's alone.
    """
    name, labels = seen.body["metadata"]["name"], seen.body["metadata"]["labels"]
    slot = int(labels[lease.SLOT_LABEL])
    if not 0 <= slot < slots.MAX_SLOTS or name != name_of(labels[lease.JOB_LABEL], slot):
        raise ValueError(f"the name of slot {slot}'s Lease is another")
    return _sighting(slot, seen.body, seen.since, default_limit)


def _sighting(slot: int, body: kube.Object, since: float, default_limit: float) -> Sighting:
    """What stands in the object of *slot*'s Lease. Its holder itself says for how long it may stand still."""
    spec = body.get("spec") or {}
    found = lease.parse(slot, spec.get("holderIdentity"), body["metadata"].get("annotations"))
    limit = _seconds(spec.get("leaseDurationSeconds"), default_limit)
    return Sighting(found, still=time.monotonic() - since, limit=limit)


def _seconds(duration: Any, default: float) -> float:
    """The server lets any 32-bit number above 0 in; a holder that would be waited for longer than an hour is none."""
    return float(duration) if isinstance(duration, int) and 0 < duration <= settings.MAX_LIMIT else default


def of_run(found: Sighting, job: str) -> Sighting:
    """The Lease as the run *job* sees it: what an earlier run under the same name has left in it counts for nothing."""
    if found.lease.job in ("", job):
        return found
    return dataclasses.replace(found, lease=lease.SlotLease(found.lease.slot))


class Seat:
    """One process's hold on one slot."""

    def __init__(
        self, api: kube.Api, *, job_name: str, job: str, slot: int, pod: str, nonce: str, limit: float
    ) -> None:
        self.slot, self.name = slot, name_of(job_name, slot)
        self.lost = False
        """Whether the slot was ours and is no longer."""
        self.renewed = 0.0
        """When the last successful write was sent: until then the Lease was surely ours."""
        self._api, self._job_name, self._job, self._pod, self._nonce, self._limit = (
            api,
            job_name,
            job,
            pod,
            nonce,
            limit,
        )
        self._lock = threading.RLock()
        self._body: kube.Object | None = None
        self._since = 0.0
        self._held = False
        self._unsure: tuple[float, str, lease.SlotLease] | None = None
        """A write without a reply: when it was sent, over which version, and what it said."""

    @property
    def held(self) -> bool:
        """Whether the slot was ever ours."""
        return self._held

    def sighting(self) -> Sighting | None:
        """The Lease as last read or written."""
        with self._lock:
            if self._body is None:
                return None
            return of_run(_sighting(self.slot, self._body, self._since, self._limit), self._job)

    def read(self) -> Sighting | None:
        """The Lease as it is now."""
        with self._lock:
            self._keep(self._api.get(kube.LEASE, self.name))
            return self.sighting()

    def take(self, number: int, store: str) -> bool:
        """Whether the slot, as last read, is now held by this process, which has arrived for round *number*."""
        with self._lock:
            seen = self.sighting()
            mine = lease.SlotLease(
                slot=self.slot,
                pod=self._pod,
                nonce=self._nonce,
                job=self._job,
                arrived=number,
                store=store,
                seen=max(number, seen.lease.seen if seen else 0),
                failure=seen.lease.failure if seen else None,
            )
            return self._put(mine, taken=True)

    def write(self, **changes: Any) -> bool:
        """Whether the Lease, still ours, now says *changes*. Without any it is a renewal. False is a slot that is lost.

        Raises:
            KubeError: the write had no outcome; others who write the same Lease count as that.
        """
        with self._lock:
            for _ in range(_TRIES):
                made = self._unsure and self._settle(self._unsure)
                seen = self.sighting()
                if seen is None or seen.lease.nonce != self._nonce:
                    self.lost = self._held
                    return False
                new = dataclasses.replace(seen.lease, **changes)
                if (made and new == seen.lease) or self._put(new):
                    return True
            raise kube.UnreachableError(f"Lease {self.name}: others wrote it first, {_TRIES} times")

    def settle(self) -> None:
        """Finds out what came of a write whose reply was not waited for: a signal may end the wait."""
        with self._lock:
            if self._unsure:
                self._settle(self._unsure)

    def release(self, *, wanted: bool = False) -> None:
        """Frees the slot if it is ours. What it has seen stays, and of a *wanted* one whom it lost."""
        with self._lock:
            seen = self.sighting()
            if seen is not None and seen.lease.nonce == self._nonce:
                self._put(lease.freed(seen.lease, left=self._pod if wanted else ""))

    def _put(self, new: lease.SlotLease, *, taken: bool = False) -> bool:
        """Compare-and-set."""
        sent, old = time.monotonic(), self._body
        self._unsure = (sent, old["metadata"]["resourceVersion"] if old else "", new)
        written = (
            self._api.create(kube.LEASE, self._fresh(new)) if old is None else self._replace(old, new, taken=taken)
        )
        self._keep(written if written is not None else self._api.get(kube.LEASE, self.name))
        self._unsure = None
        if written is not None and new.nonce:
            self.renewed = sent
        return written is not None

    def _settle(self, unsure: tuple[float, str, lease.SlotLease]) -> bool:
        """Whether a write whose reply was lost was made: then the Lease says so, in another version."""
        sent, version, new = unsure
        self._keep(self._api.get(kube.LEASE, self.name))
        self._unsure = None
        seen = self.sighting()
        made = seen is not None and self._body is not None and seen.lease == new
        if made and self._body and self._body["metadata"]["resourceVersion"] != version:
            self.renewed = max(self.renewed, sent)
            return True
        return False

    def _replace(self, old: kube.Object, new: lease.SlotLease, *, taken: bool) -> kube.Object | None:
        metadata = {k: v for k, v in old["metadata"].items() if k != "managedFields"}
        found, renewed = metadata.get("annotations") or {}, bool(new.nonce) and not taken
        others = {k: v for k, v in found.items() if renewed or not k.startswith(lease.PREFIX)}
        metadata["annotations"] = {k: v for k, v in others.items() if k not in lease.KEYS} | lease.annotations(new)
        spec = {**(old.get("spec") or {}), **self._spec(new)}
        if taken:
            spec["leaseTransitions"] = spec.get("leaseTransitions", 0) + 1
            spec["acquireTime"] = spec["renewTime"]
        if not new.nonce:
            spec = {k: v for k, v in spec.items() if k not in ("holderIdentity", "acquireTime", "renewTime")}
        return self._api.replace(kube.LEASE, {**old, "metadata": metadata, "spec": spec})

    def _fresh(self, new: lease.SlotLease) -> kube.Object:
        labels = {
            lease.JOB_LABEL: self._job_name,
            lease.SLOT_LABEL: str(self.slot),
            lease.MANAGED_BY_LABEL: lease.MANAGED_BY,
        }
        metadata = {"name": self.name, "labels": labels, "annotations": lease.annotations(new)}
        return {"metadata": metadata, "spec": self._spec(new)}

    def _spec(self, new: lease.SlotLease) -> dict[str, Any]:
        now = dt.datetime.now(dt.timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return {"holderIdentity": lease.holder(new), "leaseDurationSeconds": max(1, int(self._limit)), "renewTime": now}

    def _keep(self, body: kube.Object | None) -> None:
        known = self._body and self._body["metadata"]["resourceVersion"]
        if body is None or body["metadata"]["resourceVersion"] != known:
            self._since = time.monotonic()
        self._body = body
        seen = self.sighting()
        if seen is not None and seen.lease.nonce == self._nonce:
            self._held, self.renewed = True, self.renewed or time.monotonic()
        elif self._held:
            self.lost = True
