"""How long one decision takes: of the allocator alone, as others' were timed, and of all that the operator does for it.

The whole begins with what its mirrors hold (cluster nodes, pods, jobs with queues, priorities, selectors, a quota and
learned throughput) and ends with what each job is given. In each turn 2 % of the jobs are new.
"""

from __future__ import annotations

import dataclasses
import random
import time
from typing import TYPE_CHECKING, Any

from elasticjob_operator.api import job as jobs
from elasticjob_operator.api import settings as operator_settings
from elasticjob_operator.api import times
from elasticjob_operator.autoscaler import curves, deciding, learning, settings, snapshot
from elasticjob_operator.autoscaler.seeing import carrying, measuring, objects, picture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elasticjob_operator.api import allocation

SEED = 1
HOST = 8
"""GPUs of a cluster node."""
RACK = 16
"""Cluster nodes of a topology domain."""
GPU, TOPOLOGY = "nvidia.com/gpu", "topology.kubernetes.io/zone"
TEAMS = ("red", "green", "blue", "grey")
QUEUES = '[{"name": "red", "quota": 1024}, {"name": "green", "weight": 2}, {"name": "blue", "limit": 2048}]'
BEGIN = times.parse("2026-01-01T00:00:00Z") or 0
MOST_NODES = 64


def alone(gpus: int, count: int, turns: int) -> Iterator[float]:
    """Milliseconds of processor time that the allocator takes, from snapshot to grants."""
    chance = random.Random(SEED)  # noqa: S311 -- reproducible, no secret
    nodes = tuple(
        snapshot.ClusterNode(f"node-{i:04}", HOST, "gpu", f"rack-{i // RACK:02}") for i in range(gpus // HOST)
    )
    present = {f"team/{i}": _some(f"team/{i}", chance) for i in range(count)}
    for turn in range(turns):
        snap = snapshot.Snapshot(cluster_nodes=nodes, jobs=tuple(present.values()))
        begin = time.process_time()
        made = deciding.decide(snap, settings.Settings())
        yield 1000 * (time.process_time() - begin)
        for grant in made.grants:
            old = present[grant.job]
            fields: dict[str, Any] = {"granted": grant.nodes, "placement": grant.placement, "age": old.age + 60}
            present[grant.job] = dataclasses.replace(old, **fields)
        for name in chance.sample(sorted(present), max(count // 50, 1)):
            del present[name]
            present[f"{name}+{turn}"] = _some(f"{name}+{turn}", chance)


def _some(name: str, chance: random.Random) -> snapshot.Job:
    """Scales well to a size of its own, then less and less."""
    half = chance.choice((4, 8, 16, 32, 64))
    rates = tuple(n / (1 + n / half) for n in range(1, MOST_NODES + 1))
    age = chance.expovariate(1 / 7200)
    return snapshot.Job(name=name, minimum=1, maximum=MOST_NODES, age=age, curves={"": curves.Curve(rates)})


def whole(gpus: int, count: int, turns: int) -> Iterator[float]:
    """Milliseconds by the clock from what the mirrors hold to what each job is given, by the operator's settings."""
    world = _World(gpus, count)
    for _ in range(turns):
        yield world.turn()
        world.renew(max(count // 50, 1))


class _World:
    """What the operator's mirrors and memory hold, and pods that are where the decision has thought them."""

    def __init__(self, gpus: int, count: int) -> None:
        wish = operator_settings.parse([f"--queues={QUEUES}"], {}).autoscaler
        self._rules = settings.chosen(wish)
        self._reading = picture.Rules((GPU,), TOPOLOGY, snapshot.queues(wish))
        self._nodes = tuple(
            objects.Node(f"n{i}", {TOPOLOGY: f"r{i // RACK}", "pool": "ab"[i % 2]}, (), False, True, {GPU: HOST})  # noqa: FBT003 -- cordoned, ready
            for i in range(gpus // HOST)
        )
        self._chance, self._made, self._now = random.Random(SEED), 0, BEGIN  # noqa: S311 -- as above
        self._jobs: dict[str, jobs.Job] = {}
        self._memories: dict[str, measuring.Memory] = {}
        self._pods: dict[str, list[str]] = {}
        self._offers: dict[str, allocation.Allocation] = {}
        self._promises: carrying.Promises = {}
        self._fill(count)

    def turn(self) -> float:
        """One decision."""
        world = self._read()
        begin = time.perf_counter()
        seen = picture.paint(world, self._reading)
        made = deciding.decide(seen.snapshot, self._rules)
        self._offers, self._promises = carrying.carried(made, seen, self._memories, self._promises, self._now)
        took = 1000 * (time.perf_counter() - begin)
        for grant in made.grants:
            uid = seen.seen[grant.job].job.uid
            if self._offers[uid].nodes == grant.nodes:
                placed = [p.cluster_node.partition("/")[0] for p in grant.placement for _ in range(p.pods)]
                self._pods[uid] = placed
        self._now += 15
        return took

    def renew(self, count: int) -> None:
        """So many jobs end, and as many come."""
        for uid in self._chance.sample(sorted(self._jobs), count):
            for known in (self._jobs, self._memories, self._pods, self._offers):
                known.pop(uid, None)
        self._fill(count)

    def _read(self) -> picture.World:
        pods = (
            objects.Pod(self._jobs[uid].namespace, f"{uid}-{slot}", uid, node, False, False, {GPU: 1})  # noqa: FBT003 -- leaving, unschedulable
            for uid, placed in self._pods.items()
            for slot, node in enumerate(placed)
        )
        return picture.World(
            jobs=tuple(jobs.given(job, self._offers.get(uid)) for uid, job in self._jobs.items()),
            nodes=self._nodes,
            pods=tuple(pods),
            quotas=(objects.Quota(TEAMS[0], {GPU: 2048}),),
            priorities=(objects.Priority("high", 100, default=False),),
            memories=self._memories,
            promised={name: grant.nodes for name, grant in self._promises.items()},
            now=self._now,
        )

    def _fill(self, count: int) -> None:
        for _ in range(count):
            self._made += 1
            uid, team = f"job-{self._made}", self._chance.choice(TEAMS)
            self._jobs[uid] = jobs.parse(_manifest(uid, team, self._now, self._chance))
            self._memories[uid] = measuring.Memory(_learned(self._chance))


def _manifest(uid: str, team: str, now: int, chance: random.Random) -> dict[str, Any]:
    pod: dict[str, Any] = {"containers": [{"name": "t", "image": "t", "resources": {"limits": {GPU: 1}}}]}
    pod |= chance.choice(({}, {"nodeSelector": {"pool": "a"}}, {"priorityClassName": "high"}))
    created = times.dump(now - int(chance.expovariate(1 / 7200)))
    return {
        "metadata": {"name": uid, "namespace": team, "uid": uid, "creationTimestamp": created},
        "spec": {"minNodes": 1, "maxNodes": MOST_NODES, "queue": team, "template": {"spec": pod}},
    }


def _learned(chance: random.Random) -> learning.Knowledge:
    half, known = chance.choice((4, 8, 16, 32, 64)), learning.Knowledge.new(HOST)
    for size in (1, 2, 4, 8):
        known = known.report((size, False), size / (1 + size / half), HOST, MOST_NODES)
    return known
