"""The autoscaler's loop: mirrors in, decisions out. Only the operator whose turn it is runs it.

It writes nothing: a decision is handed to the reconcile of each job it concerns, which writes the job's whole status.
What a new leader needs to know stands there.
"""

import asyncio
import collections
import dataclasses
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from elasticjob_operator.api import job as jobs
from elasticjob_operator.api import settings as operator_settings
from elasticjob_operator.api.allocation import UNDECIDED, Allocation
from elasticjob_operator.autoscaler import deciding, decision, settings, snapshot
from elasticjob_operator.autoscaler.seeing import carrying, ceilings, lifetimes, measuring, objects, picture
from elasticjob_operator.kube.client import Client
from elasticjob_operator.kube.metrics import Metrics
from elasticjob_operator.kube.mirroring import Mirror
from elasticjob_operator.kube.queue import Key, Queue

REST_SECONDS = 1.0
"""Least time between two decisions: what happens together is decided together."""

IDLE_SECONDS = 15.0
"""A decision comes at least so often: jobs age, ceilings pass, throughput is learned."""

BUSY = 10
"""Times its own duration that a decision is followed by a pause, so that a large cluster's take a tenth of a core."""

UNDECIDED_YET: Final = Allocation(0, UNDECIDED, "the autoscaler has not decided yet")

logger = logging.getLogger(__name__)


class Autoscaler:
    """Decides the size of every job that names none."""

    def __init__(
        self,
        client: Client,
        queue: Queue,
        reading: picture.Rules,
        rules: settings.Settings,
        *,
        metrics: Metrics,
        watched: tuple[str, ...] = (),
        dry_run: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._queue = queue
        self._reading = reading
        self._rules = rules
        self._metrics = metrics
        self._dry_run = dry_run
        self._now = now
        self._changed = asyncio.Event()
        self._offers: dict[str, Allocation] = {}
        self._memories: dict[str, measuring.Memory] = {}
        self._looks: list[measuring.Look] = []
        self._ceilings: dict[str, ceilings.Ceiling] = {}
        self._promises: carrying.Promises = {}
        self._lifetimes = lifetimes.Lifetimes()
        self._largest: collections.Counter[str] | None = None
        self._hosts: dict[str, collections.Counter[str]] = {}
        running = "status.phase!=Succeeded,status.phase!=Failed"
        self._jobs = [Mirror(client, "ElasticJob", jobs.parse, self._told, namespace=n) for n in watched or (None,)]
        self._nodes = Mirror(client, "Node", objects.node, self._node_told)
        self._pods = Mirror(client, "Pod", objects.pod, self._pod_told, fields=running)
        self._quotas = Mirror(client, "ResourceQuota", objects.quota, self._news)
        self._priorities = Mirror(client, "PriorityClass", objects.priority, self._news)

    def allocation(self, job: jobs.Job) -> Allocation:
        """What this job has been given last, by this process or the one before it."""
        return self._known(job) or dataclasses.replace(UNDECIDED_YET, dry_run=self._dry_run)

    def _known(self, job: jobs.Job) -> Allocation | None:
        known = job.status.allocation
        return self._offers.get(job.uid) or (known if known and known.dry_run == self._dry_run else None)

    async def run(self) -> None:
        """Decide, for ever."""
        cluster: list[Mirror[Any]] = [self._nodes, self._pods, self._quotas, self._priorities]
        async with asyncio.TaskGroup() as group:
            for mirrors in (cluster, self._jobs):  # what is known of a job begins with what its cluster nodes hold
                for mirror in mirrors:
                    group.create_task(mirror.run())
                for mirror in mirrors:
                    await mirror.ready.wait()
            while True:
                self._changed.clear()
                began = time.monotonic()
                await self._decide()
                took = time.monotonic() - began
                self._metrics.decisions.observe(took)
                await asyncio.sleep(max(REST_SECONDS, BUSY * took))
                try:
                    await asyncio.wait_for(self._changed.wait(), IDLE_SECONDS)
                except TimeoutError:
                    continue

    async def _decide(self) -> None:
        looks, self._looks = self._looks, []
        try:
            self._memories = await asyncio.to_thread(measuring.read, self._memories, looks)
            world = self._world()
            seen, made = await asyncio.to_thread(_made, world, self._reading, self._rules)
        except Exception:  # a bug that one picture brings out: sizes stay as they are, and the next picture is another
            logger.exception("no decision")
            return
        now = int(self._now())
        volatile = frozenset(node.name for node in seen.snapshot.cluster_nodes if node.volatile)
        self._lifetimes = lifetimes.observed(self._lifetimes, volatile, now)
        self._ceilings = ceilings.judged(self._ceilings, seen, world.pods, now)
        offers, self._promises = carrying.carried(
            made,
            seen,
            self._memories,
            self._promises,
            now,
            dry_run=self._dry_run,
            firm=not self._rules.volatile_minimum,
        )
        for one in seen.seen.values():
            before, after = self._offers.get(one.job.uid), offers[one.job.uid]
            if before != after:
                self._queue.add(Key(one.job.namespace, one.job.name))
            if before is None or before.nodes != after.nodes:
                self._metrics.allocations.add(reason=after.reason)
        self._offers = offers

    def _world(self) -> picture.World:
        """Everything as it is now; of our own grants what was decided, which the mirror may not have heard of yet."""
        listed = tuple(job for mirror in self._jobs for job in mirror.items)
        self._memories = {job.uid: self._memories[job.uid] for job in listed if job.uid in self._memories}
        return picture.World(
            jobs=tuple(jobs.given(job, self._known(job)) for job in listed),
            nodes=self._nodes.items,
            pods=self._pods.items,
            quotas=self._quotas.items,
            priorities=self._priorities.items,
            memories=dict(self._memories),
            ceilings={uid: one.pods for uid, one in self._ceilings.items() if one.pods is not None},
            promised={name: grant.nodes for name, grant in self._promises.items()},
            volatile_lifetime=self._lifetimes.mean,
            now=int(self._now()),
        )

    def _news(self, *_: object) -> None:
        self._changed.set()

    def _node_told(self, *_: object) -> None:
        self._largest = None
        self._changed.set()

    def _pod_told(self, old: objects.Pod | None, new: objects.Pod | None) -> None:
        for pod, more in ((old, -1), (new, 1)):
            if pod is not None and pod.node and not pod.leaving:
                nodes = self._hosts.setdefault(pod.owner, collections.Counter())
                nodes[pod.node] += more
                self._hosts[pod.owner] = +nodes
        for owner in {pod.owner for pod in (old, new) if pod is not None and not self._hosts.get(pod.owner)}:
            self._hosts.pop(owner, None)
        self._changed.set()

    def _host(self, resource: str, each: int) -> int:
        """Pods of so many devices that the largest cluster node holds when it is empty; at least one."""
        if self._largest is None:
            self._largest = collections.Counter()
            for node in self._nodes.items:
                self._largest |= collections.Counter(dict(node.devices))
        return self._largest[resource] // max(each, 1) or 1

    def _told(self, old: jobs.Job | None, new: jobs.Job | None) -> None:
        """Something of a job has changed; only its training having gone on is no reason to decide at once."""
        if new is not None:
            self._look(new)
        if old is None or new is None or _gist(old) != _gist(new):
            self._changed.set()

    def _look(self, job: jobs.Job) -> None:
        """Keep what the job says for the next decision: to fit a curve takes too long here."""
        one = picture.seen(job, self._reading.resources)
        if one is None:
            return
        host = self._host(one.resource, one.each)
        first = min(max(host, one.wish.min_nodes), one.wish.max_nodes) if one.each else one.wish.max_nodes
        self._looks.append(
            measuring.Look(
                job=job,
                first=first,
                across=len(self._hosts.get(job.uid, ())) > 1,
                host=host,
                maximum=one.wish.max_nodes,
                now=int(self._now()),
            )
        )


def made(client: Client, queue: Queue, chosen: operator_settings.Settings, metrics: Metrics) -> Autoscaler:
    """The autoscaler that an administrator has asked for."""
    wish = chosen.autoscaler
    return Autoscaler(
        client,
        queue,
        picture.Rules(wish.accelerators, wish.topology, snapshot.queues(wish)),
        settings.chosen(wish),
        metrics=metrics,
        watched=chosen.watched,
        dry_run=wish.mode == "dry-run",
    )


def _made(
    world: picture.World, reading: picture.Rules, rules: settings.Settings
) -> tuple[picture.Picture, decision.Decision]:
    seen = picture.paint(world, reading)
    return seen, deciding.decide(seen.snapshot, rules)


def _gist(job: jobs.Job) -> tuple[object, ...]:
    known = job.status
    return job.generation, job.deleting, known.round, known.round_phase, known.notice_time is None, known.finished
