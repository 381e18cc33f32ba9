"""Jobs that come and go, hundreds of them, and what stays of them: `python -m bench.soak [JOBS]`.

A real control plane, the operator as a process with the chart's rights and the image's settings, simulated pods and
agents. Each job trains on two nodes, loses a pod, trains again and is deleted. In the end nothing of them may be in the
API, and the operator hardly larger than after the first fifth. One line a figure in `build/bench/soak.jsonl` (figure,
value, unit).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from cluster import LocalCluster
from elasticjob_operator.kube import client as clients
from support import checkout, operator_cluster
from support.operator_cluster import SYSTEM, Operator, kubeconfig_of, until
from support.operator_job import Job
from support.operator_simulation import Simulation, acting

if TYPE_CHECKING:
    from collections.abc import Iterator

OUT = pathlib.Path(__file__).parents[2] / "build/bench/soak.jsonl"
JOBS = 500
LANES = 10
"""Jobs at the same time, each in a namespace of its lane's."""

PACE = 0.3
"""Seconds between two looks of a simulated kubelet, of which there are many here."""

PATIENCE = 300.0
GROWTH = 10.0
"""KiB a job by which the operator may have grown since the first fifth: less than one pod takes as it is read, of which
each job here has three. What the allocator cuts up and keeps is some of that, and levels off.
"""

KINDS = (
    "ElasticJob", "Pod", "Lease", "ConfigMap", "Role", "RoleBinding", "ServiceAccount", "NetworkPolicy",
    "PodDisruptionBudget", "Service",
)  # fmt: skip
KUBERNETES_OWN = ("kube-root-ca.crt", "default")
"""Objects that every namespace has."""


class Sizes:
    """What the operator's process takes of the machine."""

    def __init__(self, pid: int) -> None:
        self._home = pathlib.Path(f"/proc/{pid}")

    @property
    def mebibytes(self) -> float:
        """Resident memory that is its own, as it is now."""
        lines = (self._home / "smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024

    @property
    def descriptors(self) -> int:
        return len(list((self._home / "fd").iterdir()))

    @property
    def threads(self) -> int:
        return len(list((self._home / "task").iterdir()))

    def __str__(self) -> str:
        return f"{self.mebibytes:.1f} MiB, {self.descriptors} descriptors, {self.threads} threads"


async def lived(admin: clients.Client, namespace: str, name: str) -> None:
    """One job's life, until its pods are gone."""
    job = Job(admin, Simulation(admin, namespace, name))
    job.simulation.pace = PACE
    async with acting(job.simulation):
        await job.apply(nodes=2, maxNodes=3)
        await job.trains(2, seconds=PATIENCE)
        await job.simulation.remove(f"{name}-1-0")
        await job.comes_to("disruptions", 1, seconds=PATIENCE)
        await job.trains(2, seconds=PATIENCE)
        await admin.request("DELETE", clients.path("ElasticJob", namespace, name))
        await until(lambda: _no_pods(job), seconds=PATIENCE)


async def _no_pods(job: Job) -> bool:
    return not await job.simulation.pods()


async def left(admin: clients.Client, namespaces: list[str]) -> list[str]:
    """What is in these namespaces that no namespace has by itself."""
    found = [(kind, item) for name in namespaces for kind in KINDS for item in await admin.list(kind, name)]
    named = [f"{kind}/{item['metadata']['name']}" for kind, item in found]
    return [name for name in named if not name.endswith(KUBERNETES_OWN)]


class Soak:
    """The whole run."""

    def __init__(self, admin: clients.Client, operator: Operator, jobs: int) -> None:
        self._admin = admin
        self._operator = operator
        self._numbers = iter(range(jobs))
        self._jobs = jobs
        self._done = 0
        self.samples: list[float] = []
        """The operator's size after each tenth."""

    async def run(self) -> dict[str, tuple[float, str]]:
        """All jobs; what was found."""
        namespaces = [f"soak-{lane}" for lane in range(LANES)]
        sizes, began = Sizes(self._operator.pid), time.monotonic()
        print(f"before the first job: {sizes}", flush=True)
        async with contextlib.AsyncExitStack() as stack:
            for name in namespaces:
                await stack.enter_async_context(operator_cluster.namespace(self._admin, name))
            await asyncio.gather(*(self._lane(name, sizes) for name in namespaces))
            took = time.monotonic() - began
            with contextlib.suppress(AssertionError):  # it is told below
                await until(lambda: self._empty(namespaces), seconds=PATIENCE)
            stays = await left(self._admin, namespaces)
            print(*stays, sep="\n")
            await asyncio.sleep(10)  # what the last ones have left in the operator is looked at once more
            return {
                "soak_jobs": (self._jobs, "jobs"),
                "soak_seconds": (round(took), "s"),
                "soak_objects_left": (len(stays), "objects"),
                "soak_memory_first_fifth": (round(self.samples[1], 1), "MiB"),
                "soak_memory_end": (round(sizes.mebibytes, 1), "MiB"),
                "soak_growth": (round((sizes.mebibytes - self.samples[1]) * 1024 / (self._jobs * 0.8), 1), "KiB a job"),
                "soak_descriptors": (sizes.descriptors, "descriptors"),
                "soak_threads": (sizes.threads, "threads"),
            }

    async def _lane(self, namespace: str, sizes: Sizes) -> None:
        for number in self._numbers:
            await lived(self._admin, namespace, f"soak-{number}")
            self._done += 1
            if self._done * 10 % self._jobs < 10:
                self.samples.append(sizes.mebibytes)
                print(f"{self._done} jobs: {sizes}", flush=True)

    async def _empty(self, namespaces: list[str]) -> bool:
        return not await left(self._admin, namespaces)


async def soaked(cluster: LocalCluster, folder: pathlib.Path, jobs: int) -> dict[str, tuple[float, str]]:
    admin = await operator_cluster.connect(cluster.kubeconfig)
    access = kubeconfig_of(cluster, folder / "kube", account="elasticjob", namespace=SYSTEM)
    operator = Operator(access, folder / "operator.log", "--relist-seconds=20")
    operator.start(forked=False)
    try:
        found = await Soak(admin, operator, jobs).run()
    finally:
        operator.kill()
        await admin.close()
    assert "Traceback" not in operator.text, operator.text[-5000:]
    return found


@contextlib.contextmanager
def control_plane() -> Iterator[LocalCluster]:
    cluster = LocalCluster.start(name=checkout.cluster_name("soak"), control_plane_only=True)
    try:
        operator_cluster.install(cluster)
        yield cluster
    finally:
        cluster.down()


def main() -> int:
    """Run; 1 where something stays."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else JOBS
    with control_plane() as cluster, tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(soaked(cluster, pathlib.Path(folder), jobs))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"figure": name, "value": value, "unit": unit}) for name, (value, unit) in found.items()]
    OUT.write_text("\n".join(lines) + "\n")
    print(*lines, sep="\n")
    return int(found["soak_objects_left"][0] > 0 or found["soak_growth"][0] > GROWTH)


if __name__ == "__main__":
    sys.exit(main())
