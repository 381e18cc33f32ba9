"""The operator as a process of its own against a real API server, with the rights that the chart gives it, no more."""

import asyncio
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import yaml
from kubernetes.aio import config
from kubernetes.aio.client import configuration
from kubernetes.aio.config import kube_config

from cluster import LocalCluster
from elasticjob_operator import __main__
from elasticjob_operator.kube import client as clients
from support import forks

forks.preload("elasticjob_operator.running", "support.operator_cluster")

ROOT = pathlib.Path(__file__).parents[2]
CHART = ROOT / "charts/elasticjob"
SYSTEM = "elasticjob-system"

PATIENCE = 120.0
"""Seconds for anything that should come to pass, on a machine however busy. Who waits in vain waits once."""

NODE = "simulated"
"""Where the simulated pods are. It has to be there, or Kubernetes' own collector of garbage deletes them."""


async def connect(kubeconfig: pathlib.Path) -> clients.Client:
    """A client with this kubeconfig."""
    settings = configuration.Configuration()
    load: Any = config.load_kube_config
    await load(config_file=str(kubeconfig), client_configuration=settings)
    return clients.Client(settings)


async def cordon(admin: clients.Client, node: str, *, cordoned: bool = True) -> None:
    """``kubectl cordon``, or ``uncordon``."""
    found = await admin.request("GET", f"/api/v1/nodes/{node}")
    del found["metadata"]["resourceVersion"]  # controllers write it meanwhile
    await admin.request("PUT", f"/api/v1/nodes/{node}", body={**found, "spec": {"unschedulable": cordoned}})


async def evictable(admin: clients.Client, namespace: str, job: str) -> bool:
    """Whether the job's budget lets its pods be evicted."""
    budget = await admin.get("PodDisruptionBudget", namespace, f"{job}-worker")
    return budget is not None and budget["spec"]["minAvailable"] == 0


def install(cluster: LocalCluster) -> None:
    """Install the chart without a pod: the tests run the operator themselves."""
    cluster.kubectl("create", "namespace", SYSTEM)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": {"unschedulable": True}}
    cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(node))
    cluster.helm("install", "elasticjob", str(CHART), "-n", SYSTEM, "--set", "replicas=0")


def kubeconfig_of(
    cluster: LocalCluster, path: pathlib.Path, *, account: str, namespace: str, server: str = ""
) -> pathlib.Path:
    """A kubeconfig with the token of a ServiceAccount; *server* is another way to the same API."""
    token = cluster.kubectl("-n", namespace, "create", "token", account, "--duration=2h").strip()
    found = yaml.safe_load(cluster.kubeconfig.read_text())
    found["users"] = [{"name": "account", "user": {"token": token}}]
    for context in found["contexts"]:
        context["context"]["user"] = "account"
    if server:
        found["clusters"] = [{"name": c["name"], "cluster": {"server": server}} for c in found["clusters"]]
    path.write_text(yaml.safe_dump(found))
    return path


def _operator(*flags: str) -> None:
    kube_config.KUBE_CONFIG_DEFAULT_LOCATION = os.environ["KUBECONFIG"]  # it was read when the module was imported
    sys.exit(__main__.main(list(flags)))


def _image_settings() -> dict[str, str]:
    """What the image sets for the C library."""
    return dict(re.findall(r"\b(MALLOC_\w+)=(\S+)", (ROOT / "images/operator/Dockerfile").read_text()))


class Operator:
    """The operator's process."""

    def __init__(self, kubeconfig: pathlib.Path, log: pathlib.Path, *flags: str) -> None:
        self._kubeconfig = kubeconfig
        self.flags = flags
        self._log = log
        self._process: forks.Fork | subprocess.Popen[bytes] | None = None

    def start(self, *, forked: bool = True) -> None:
        """Start it (again). Not *forked*, it is as the image starts it, and shares no memory with us."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("ELASTICJOB_", "KUBERNETES_"))}
        env |= {"KUBECONFIG": str(self._kubeconfig), "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT / 'rendezvous'}"}
        flags = (
            "--health-port=0",
            f"--namespace={SYSTEM}",
            "--network-policies=true",
            "--disruption-budgets=true",
            "--watch-cluster-nodes=false",  # that of the simulated pods is none that answers
            *self.flags,
        )
        if forked:
            self._process = forks.Fork(_operator, *flags, env=env, log=self._log)
            return
        command = ["setpriv", "--pdeathsig=KILL", sys.executable, "-m", "elasticjob_operator", *flags]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env={**env, **_image_settings()}, stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def text(self) -> str:
        """What it has logged."""
        return self._log.read_text()

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it with no warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """End it as Kubernetes does; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=PATIENCE)


async def until(what: Callable[[], Awaitable[Any]], *, seconds: float = PATIENCE) -> Any:
    """Wait until *what* comes true; what it then is."""
    end = time.monotonic() + seconds
    while True:
        found = await what()
        if found:
            return found
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def namespace(admin: clients.Client, name: str) -> AsyncIterator[str]:
    """A namespace of one test's own. Its jobs and pods go at once: the next test's operator would look after the jobs
    for as long as the namespace's end takes, and no kubelet would tell that the pods have ended.
    """
    await admin.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    yield name
    for kind in ("ElasticJob", "Pod"):
        await admin.request("DELETE", clients.path(kind, name), body={"gracePeriodSeconds": 0})
    await admin.request("DELETE", f"/api/v1/namespaces/{name}")
