"""What of an event is news: only that puts a job on the queue.

Most events are none: a Lease that was only renewed, a status that the operator itself has written, a pod's heartbeat.
What is remembered is one short text an object, and nothing decides on it: a job that is looked at in vain costs a few
reads, one that is not is found by the next relist.
"""

import asyncio
from collections.abc import Collection, Hashable, Mapping
from typing import Any

from elasticjob_operator.api import names
from elasticjob_operator.core import cluster_nodes, pods
from elasticjob_operator.kube.queue import Key, Queue
from elasticjob_rendezvous.round import lease

PROGRESS_SECONDS = 10.0
"""Least time between two looks at a job only because its training went on; with many jobs it is a second a job, so that
progress alone never causes more than one look a second."""


class Notice:
    """Events in, keys out."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._known: dict[str, tuple[Hashable, Hashable]] = {}
        self._older: dict[str, tuple[Hashable, Hashable]] = {}
        self._jobs: dict[str, tuple[int, Key]] = {}
        self._heard: dict[str, float] = {}
        self._places: dict[str, tuple[str, Key]] = {}
        self.cluster_nodes: dict[str, cluster_nodes.ClusterNode] = {}
        """As the watch last told of them."""

    def event(self, kind: str, event: Mapping[str, Any]) -> None:
        """Take in one event of a watch: its ``type`` and ``object``."""
        item = event["object"]
        self._heard[kind] = asyncio.get_running_loop().time()
        if kind == "Node":
            self._cluster_node(event["type"], item)
            return
        key, uid = _key(kind, item), item["metadata"]["uid"]
        if key is None:
            return
        if event["type"] == "DELETED":
            self._known.pop(uid, None)
            self._older.pop(uid, None)
            self._jobs.pop(uid, None)
            self._places.pop(uid, None)
            self._queue.add(key)
            return
        if kind == "ElasticJob":
            self._jobs[uid] = (item["metadata"].get("generation", 0), key)
        if kind == "Pod" and (node := (item.get("spec") or {}).get("nodeName")):
            self._places[uid] = (node, key)
        news, progress = _news(kind, item)
        before = self._known.get(uid) or self._older.pop(uid, None)
        self._known[uid] = (news, progress)
        if before is None or before[0] != news:
            self._queue.add(key)
        elif before[1] != progress:
            self._queue.add(key, max(PROGRESS_SECONDS, float(len(self._jobs))))

    def quiet(self, kind: str) -> float:
        """Seconds since the last event of a kind; endless if there was none."""
        return asyncio.get_running_loop().time() - self._heard.get(kind, float("-inf"))

    def missed(self, listed: Mapping[str, int]) -> set[str]:
        """Jobs, by UID, of which the API server knows a newer spec than the watch has told."""
        return {uid for uid, generation in listed.items() if uid not in self._jobs or self._jobs[uid][0] < generation}

    def prune(self, jobs: Collection[Key] | None = None) -> None:
        """Forget objects of which nothing was heard since the last time: their deletion may never have been told.

        A job, and where its pods are, is known while it is there (*jobs* are all, if that is known): a pod that trains
        is not heard of for hours. What was just heard of may be newer than the list.
        """
        self._known, self._older = {}, self._known
        if jobs is not None:
            new = self._older
            self._places = {uid: place for uid, place in self._places.items() if place[1] in jobs or uid in new}
            self._jobs = {uid: known for uid, known in self._jobs.items() if known[1] in jobs or uid in new}

    def _cluster_node(self, what: str, item: Mapping[str, Any]) -> None:
        """What happens to a cluster node is news for the jobs that have pods on it."""
        name = item["metadata"]["name"]
        before = self.cluster_nodes.pop(name, None)
        if what != "DELETED":
            self.cluster_nodes[name] = cluster_nodes.parse(item)
        if before != self.cluster_nodes.get(name):
            for key in {key for node, key in self._places.values() if node == name}:
                self._queue.add(key)


def _key(kind: str, item: Mapping[str, Any]) -> Key | None:
    meta = item["metadata"]
    if kind == "ElasticJob":
        return Key(meta["namespace"], meta["name"])
    job = (meta.get("labels") or {}).get(names.JOB_LABEL)
    return Key(meta["namespace"], job) if job else None


def _news(kind: str, item: Mapping[str, Any]) -> tuple[Hashable, Hashable]:
    """What of an object is news at once, and what only for the record of progress."""
    meta = item["metadata"]
    if kind == "ElasticJob":
        return (meta.get("generation"), meta.get("deletionTimestamp")), None
    if kind == "Pod":
        return (meta.get("deletionTimestamp"), repr(meta.get("ownerReferences")), _pod(item.get("status") or {})), None
    if kind == "Lease":
        found = lease.parse(0, (item.get("spec") or {}).get("holderIdentity"), meta.get("annotations"))
        told = (found.pod, found.nonce, found.arrived, found.store, found.finished, found.checkpointed, found.failure)
        return (*told, found.pause, found.progress and found.progress.round), found.progress
    return meta.get("resourceVersion"), None


def _pod(status: Mapping[str, Any]) -> Hashable:
    conditions = [(c.get("type"), c.get("status"), c.get("reason")) for c in status.get("conditions") or ()]
    states = [
        repr({k: {**v, "startedAt": None} for k, v in (c.get("state") or {}).items()}) for c in pods.statuses(status)
    ]
    return status.get("phase"), status.get("reason"), tuple(conditions), tuple(states)
