"""Figure 4: from a fault to the first step of the group that trains afterwards. Real torchruns, real gloo workers.

Every node is a torchrun forked from a process that has loaded torch: a replacement is at hand at once, whichever the
backend. The workers are started by torchrun as ever, in interpreters of their own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import time
from typing import TYPE_CHECKING, Any

from bench.rendezvous import agent, joining
from bench.rendezvous.figures import Figure
from support import rendezvous_forks, rendezvous_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.rendezvous.backends import Backend, Job

WORKER = pathlib.Path(__file__).with_name("worker.py")
PARTS = ("detect", "stop", "form", "start", "first_step")
LIMIT = 45.0
"""Seconds after which a group is given up. Torch's backends miss a dead node after 15 s, and wait 30 s more."""


@dataclasses.dataclass(frozen=True)
class Recovery:
    """When each thing was done by the last one who had to, in seconds after the fault."""

    total: float
    parts: dict[str, float]


class Group:
    """The torchruns of one job."""

    def __init__(self, job: Job, nodes: int, nnodes: str, folder: pathlib.Path) -> None:
        self._job, self._nnodes, self._folder = job, nnodes, folder
        folder.mkdir(parents=True)
        self._lines, self._crash = folder / "lines", folder / "crash"
        self._lines.touch()
        self._started = 0
        self.agents: dict[int, rendezvous_jobs.Agent] = {}
        for node in range(nodes):
            self.start(node)

    def start(self, node: int) -> None:
        """Starts a node, or its replacement."""
        flags = {
            **self._job.join.flags(node),
            "nnodes": self._nnodes,
            "nproc-per-node": "1",
            "local-addr": joining.ADDRESS,
            "max-restarts": "100",
        }
        # What the tests' environment forbids the interpreters that start here: to keep what they have compiled.
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env |= {**self._job.join.environment(node), "BENCH_NODE": str(node), "OMP_NUM_THREADS": "1"}
        self._started += 1
        log = self._folder / f"{self._started}-node-{node}.log"
        arguments = [f"--{key}={value}" for key, value in flags.items()]
        fork = rendezvous_forks.Fork(
            agent.torchrun,
            str(self._lines),
            *arguments,
            str(WORKER),
            str(self._lines),
            str(self._crash),
            env=env,
            log=log,
        )
        self.agents[node] = rendezvous_jobs.Agent(fork, log)

    def crash(self, rank: int) -> None:
        """The worker with this rank ends with an error."""
        new = self._crash.with_suffix(".new")
        new.write_text(str(rank))
        new.replace(self._crash)

    def kill(self, node: int) -> None:
        """The node is gone at once, its workers too."""
        self.agents.pop(node).kill()

    def cut_off(self, node: int) -> None:
        """Nothing comes from the node any more, and its connections stay open."""
        for pid in self.agents[node].tree():
            os.kill(pid, signal.SIGSTOP)

    def told(self) -> list[dict[str, Any]]:
        """All lines so far."""
        return [json.loads(line) for line in self._lines.read_text().splitlines()]

    def trains(self, world: int, *, since: float = 0.0) -> list[dict[str, Any]] | None:
        """The lines of the first steps of a whole group of *world* that began after *since*; None if none did."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for line in self.told():
            if line.get("stepped", 0.0) > since and line["world"] == world:
                groups.setdefault(line["group"], []).append(line)
        return next((found for found in groups.values() if len(found) == world), None)

    def awaited(self, world: int, *, since: float = 0.0, limit: float = LIMIT) -> list[dict[str, Any]] | None:
        """As :meth:`trains`, once it is so; None if it does not come, or all are gone."""
        until = time.monotonic() + limit
        while time.monotonic() < until and any(a.process.poll() is None for a in self.agents.values()):
            if (found := self.trains(world, since=since)) is not None:
                return found
            time.sleep(0.05)
        return None

    def rank_0(self, steps: list[dict[str, Any]]) -> int:
        """The node with rank 0."""
        return next(int(line["node"]) for line in steps if line["rank"] == 0)

    def recovered(self, fault: float, steps: list[dict[str, Any]]) -> Recovery:
        """What happened between the fault and the first steps."""
        nodes = {line["node"] for line in steps}
        events = [line for line in self.told() if "what" in line and line["at"] > fault and line["node"] in nodes]

        def last(what: str) -> float:
            """When the last of the group came to it, the last time before its first step."""
            times: dict[str, float] = {}
            for line in events:
                if line["what"] == what:
                    times[line["node"]] = max(line["at"], times.get(line["node"], 0.0))
            return max(times.values(), default=fault)

        ends = [
            last("stop"),
            last("stop done"),
            last("form done"),
            max(line["loaded"] for line in steps),
            max(line["stepped"] for line in steps),
        ]
        before, parts = fault, {}
        for part, end in zip(PARTS, ends, strict=True):
            parts[part] = max(0.0, end - before)
            before = max(before, end)
        return Recovery(before - fault, parts)

    def close(self) -> None:
        for found in self.agents.values():
            found.kill()


@contextlib.contextmanager
def running(job: Job, nodes: int, nnodes: str, folder: pathlib.Path) -> Iterator[Group]:
    """A group that is gone at the end."""
    group = Group(job, nodes, nnodes, folder)
    try:
        yield group
    finally:
        group.close()


def restored(backend: Backend, folder: pathlib.Path, nodes: int = 2) -> Iterator[Figure]:
    """A worker that crashes, a node that is killed and replaced, and the same with rank 0's: one after the other."""
    job = backend.prepare(nodes, low=nodes, high=nodes)
    with running(job, nodes, f"{nodes}:{nodes}", folder / f"{backend.name}-restored") as group:
        steps = group.awaited(nodes)
        for name in ("recover_worker_crash", "recover_kill", "recover_kill_rank0"):
            if steps is None:
                yield Figure(name, backend.name, nodes, None, "s", note="the group was gone before")
                continue
            zero = group.rank_0(steps)
            fault = time.monotonic()
            if name == "recover_worker_crash":
                group.crash(nodes - 1)
            else:
                victim = zero if name == "recover_kill_rank0" else next(n for n in range(nodes) if n != zero)
                group.kill(victim)
                group.start(victim)
            steps = group.awaited(nodes, since=fault)
            yield from _figures(name, backend, nodes, _outcome(group, fault, steps))


def left_behind(backend: Backend, folder: pathlib.Path, nodes: int = 3) -> Iterator[Figure]:
    """A node that is cut off; the others go on without it."""
    job = backend.prepare(nodes, low=nodes - 1, high=nodes)
    with running(job, nodes, f"{nodes - 1}:{nodes}", folder / f"{backend.name}-left-behind") as group:
        steps = group.awaited(nodes)
        if steps is None:
            yield Figure("recover_silent", backend.name, nodes, None, "s", note="did not form")
            return
        zero = group.rank_0(steps)
        fault = time.monotonic()
        group.cut_off(next(n for n in reversed(range(nodes)) if n != zero))
        steps = group.awaited(nodes - 1, since=fault)
        yield from _figures("recover_silent", backend, nodes, _outcome(group, fault, steps))


def _outcome(group: Group, fault: float, steps: list[dict[str, Any]] | None) -> Recovery | str:
    """What came of the fault: in words where it is no recovery."""
    if steps is not None:
        return group.recovered(fault, steps)
    gone = all(found.process.poll() is not None for found in group.agents.values())
    return "all ended" if gone else f"not within {LIMIT:g} s"


def _figures(name: str, backend: Backend, nodes: int, found: Recovery | str) -> Iterator[Figure]:
    if isinstance(found, str):
        yield Figure(name, backend.name, nodes, None, "s", note=found)
        return
    yield Figure(name, backend.name, nodes, found.total, "s")
    for part, seconds in found.parts.items():
        yield Figure(f"{name}_{part}", backend.name, nodes, seconds, "s")
