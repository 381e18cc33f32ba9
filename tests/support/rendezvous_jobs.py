"""For tests of the rendezvous: what an operator does to a job's objects, and real torchrun agents to hurt."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import time
import uuid
from typing import TYPE_CHECKING, Any

from elasticjob_rendezvous import kube, mirror, seat
from elasticjob_rendezvous.round import changing, lease, record
from support import rendezvous_forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from elasticjob_rendezvous.round.agent import Sighting
    from elasticjob_rendezvous.round.record import Record

ROOT = pathlib.Path(__file__).parents[2]
WORKER = pathlib.Path(__file__).with_name("rendezvous_worker.py")
LIGHT_WORKER = pathlib.Path(__file__).with_name("rendezvous_light_worker.py")
PATIENCE = 120.0
"""Seconds for anything that should come to pass, on a machine however busy. Less than a Lease lasts (160 s): what only
its end would bring about does not come to pass."""


def until(true: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """What *true* returns once it is true."""
    end = time.monotonic() + patience
    while not (found := true()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {patience:g} s: {what}")
        time.sleep(0.02)
    return found


class Job:
    """A job's objects in some API server, written as the operator would."""

    def __init__(self, kubeconfig: str, name: str = "") -> None:
        self.kubeconfig = kubeconfig
        self.name = name or f"job-{uuid.uuid4().hex[:8]}"
        self.uid = str(uuid.uuid4())
        self.api = kube.Kube(kubeconfig=kubeconfig)

    def plan(self, slots: Iterable[int], *, most: int = 4) -> Job:
        """Creates the objects of a planned job."""
        labels = {lease.JOB_LABEL: self.name}
        for slot in range(most):
            metadata = {"name": seat.name_of(self.name, slot), "labels": {**labels, lease.SLOT_LABEL: str(slot)}}
            self.api.create(kube.LEASE, {"metadata": metadata, "spec": {}})
        text = record.dump(changing.started(self.uid, slots))
        metadata = {"name": f"{self.name}-rendezvous", "labels": labels}
        self.api.create(kube.CONFIG_MAP, {"metadata": metadata, "data": {record.KEY: text}})
        return self

    def record(self) -> Record:
        body = self.api.get(kube.CONFIG_MAP, f"{self.name}-rendezvous")
        if body is None:
            raise LookupError(self.name)
        return record.parse(body["data"][record.KEY])

    def change(self, to: Callable[[Record], Record]) -> Record:
        """Writes the record that *to* makes of the present one."""
        while True:
            body = self.api.get(kube.CONFIG_MAP, f"{self.name}-rendezvous")
            if body is None:
                raise LookupError(self.name)
            new = dataclasses.replace(to(record.parse(body["data"][record.KEY])), writer="0perator.1")
            if self.api.replace(kube.CONFIG_MAP, {**body, "data": {record.KEY: record.dump(new)}}):
                return new

    def leases(self) -> dict[int, Sighting]:
        items, _ = self.api.list(kube.LEASE, seat.selector(self.name))
        found = [seat.sighted(mirror.Seen(body, time.monotonic()), default_limit=1) for body in items]
        return {sighting.lease.slot: sighting for sighting in found}

    def arrived(self) -> dict[int, int]:
        """The round that the holder of each slot has arrived for."""
        return {slot: seen.lease.arrived for slot, seen in self.leases().items() if not seen.lease.free}

    def forget(self) -> None:
        """Deletes the job's objects, as the deletion of their owner does."""
        for kind, names in ((kube.LEASE, self.leases()), (kube.CONFIG_MAP, ("rendezvous",))):
            for name in names:
                url = f"{self.api.host}{kind.path(self.api.namespace, f'{self.name}-{name}')}"
                self.api._client.call_api("DELETE", url)

    def free(self, slot: int) -> None:
        """Releases a slot whose pod is known to be dead, as the operator does."""
        body = self.api.get(kube.LEASE, seat.name_of(self.name, slot))
        if body is None:
            raise LookupError(slot)
        body["metadata"]["annotations"] = {}
        body["spec"].pop("holderIdentity", None)
        assert self.api.replace(kube.LEASE, body)

    def sealed(self, number: int, nodes: int, patience: float = PATIENCE) -> Record:
        """The record once a round from *number* on is sealed with *nodes* members."""

        def ready() -> Record | None:
            with contextlib.suppress(LookupError):
                found = self.record()
                return found if found.running and found.number >= number and len(found.members) == nodes else None
            return None

        found: Record = until(ready, f"round {number} with {nodes} nodes", patience)
        return found


class Agent:
    """One torchrun with its workers."""

    def __init__(self, process: rendezvous_forks.Fork, log: pathlib.Path) -> None:
        self.process, self.log = process, log

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def first_steps(self) -> list[dict[str, int]]:
        """Rounds whose first collective went through, as this agent's worker reports them."""
        found = re.findall(r"FIRST node=\S* round=(\d+) rank=(\d+) world=(\d+) sum=(\d+)", self.text())
        return [dict(zip(("round", "rank", "world", "sum"), map(int, groups), strict=True)) for groups in found]

    def trains(self, number: int, world: int, patience: float = PATIENCE) -> dict[str, int]:
        """The report of the first step of a round from *number* on with *world* nodes."""

        def ready() -> list[dict[str, int]]:
            return [s for s in self.first_steps() if s["round"] >= number and s["world"] == s["sum"] == world]

        found: list[dict[str, int]] = until(ready, f"training in round {number} of {world}: {self.log}", patience)
        return found[0]

    def wait(self, patience: float = PATIENCE) -> int:
        """The exit code."""
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {patience:g} s: {self.log}") from None

    def tree(self) -> list[int]:
        """The agent's process and all below it, deepest first."""
        found, todo = [], [self.process.pid]
        while todo:
            pid = todo.pop()
            found.append(pid)
            with contextlib.suppress(OSError):
                todo += map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return found[::-1]

    def kill(self) -> None:
        """What the loss of the pod does: everything in it is gone at once."""
        tree = self.tree()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in tree:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        self.process.wait()


class Agents:
    """Starts agents of one job and leaves none behind."""

    def __init__(self, job: Job, folder: pathlib.Path, worker: pathlib.Path = WORKER) -> None:
        self.job, self.folder, self.worker = job, folder, worker
        self.orders = folder / "orders"
        self.orders.mkdir()
        self._all: list[Agent] = []

    def start(
        self,
        slot: int | None = None,
        *,
        nnodes: str = "1:4",
        planned: bool = True,
        pod: str = "",
        conf: str = "",
        restarts: int = 100,
        kubeconfig: str = "",
        address: str = "127.0.0.1",
        processes: str = "1",
        grace: float = 10,
        **env: str,
    ) -> Agent:
        """A torchrun for *slot* (standalone: for any), as the operator's pod would run it; its workers have so many
        seconds' *grace*.
        """
        name = f"{len(self._all)}-slot-{slot}"
        log = self.folder / f"{name}.log"
        settings = {**os.environ, "PYTHONPATH": str(ROOT / "rendezvous"), "OMP_NUM_THREADS": "1", **env}
        settings["TEST_NODE"] = str(len(self._all) if slot is None else slot)
        settings["ELASTICJOB_POD_UID"] = pod or f"pod-{uuid.uuid4()}"
        if planned:
            settings["ELASTICJOB_SLOT"] = str(slot)
        elif slot is not None:
            settings["JOB_COMPLETION_INDEX"] = str(slot)
        command = [
            *("--nnodes", nnodes, "--nproc-per-node", processes),
            *("--rdzv-backend", "kubernetes", "--rdzv-endpoint", self.job.name, "--rdzv-id", self.job.uid),
            *("--local-addr", address, "--max-restarts", str(restarts), "--shutdown-timeout", f"{grace:g}"),
            *("--rdzv-conf", f"kubeconfig={kubeconfig or self.job.kubeconfig}" + (f",{conf}" if conf else "")),
            *(str(self.worker), str(self.orders)),
        ]
        agent = Agent(rendezvous_forks.Fork(rendezvous_forks.torchrun, *command, env=settings, log=log), log)
        self._all.append(agent)
        return agent

    def order(self, name: str) -> None:
        (self.orders / name).touch()

    def withdraw(self, name: str) -> None:
        (self.orders / name).unlink()

    def close(self) -> None:
        for agent in self._all:
            if agent.process.poll() is None:
                agent.kill()
