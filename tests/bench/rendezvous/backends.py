"""The rendezvous backends side by side: what each needs to run here."""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import dataclasses
import shutil
import subprocess
import tempfile
import time
import urllib.request
import uuid
from typing import TYPE_CHECKING, Any, Protocol

import yaml

from bench.rendezvous import counting, joining, quiet
from cluster import caching
from elasticjob_operator.api import names
from elasticjob_operator.core import children
from elasticjob_rendezvous import kube
from elasticjob_rendezvous.round import changing
from support import operator_builders, ports

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from cluster import LocalCluster
    from elasticjob_operator.api import job as jobs

ADDRESS = joining.ADDRESS


@dataclasses.dataclass(frozen=True)
class Job:
    """One job's rendezvous, ready to be joined. ``user``: by whom the API server knows its nodes."""

    join: joining.Join
    cluster: LocalCluster | None = None
    user: str = ""

    def counted(self) -> counting.Count | None:
        """What was asked of its server so far; None where the clients count."""
        return counting.settled(self.cluster, self.user) if self.cluster else None


class Backend(Protocol):
    """One way to rendezvous."""

    @property
    def name(self) -> str:
        """As in ``--rdzv-backend``."""

    def prepare(self, nodes: int, *, low: int, high: int) -> Job:
        """What a new job of *nodes* nodes needs. The job before it is no longer in use."""


@dataclasses.dataclass(frozen=True)
class Kubernetes:
    """Ours, in the API server of *cluster*, with the rights that a job's pods have. *planned*: an operator's job."""

    cluster: LocalCluster
    planned: bool = True

    @property
    def name(self) -> str:
        return "kubernetes" if self.planned else "kubernetes-standalone"

    def prepare(self, nodes: int, *, low: int, high: int) -> Job:
        """The objects that the operator would make, and the files that a pod would have."""
        wish = operator_builders.a_spec(minNodes=low, maxNodes=high)
        job = dataclasses.replace(
            operator_builders.a_job(), name=f"bench-{uuid.uuid4().hex[:8]}", uid=str(uuid.uuid4())
        )
        account = names.worker(job.name)
        objects = [_account(job), children.role(job, wish.rendezvous, high), _binding(job)]
        if not self.planned:
            objects[1]["rules"] = [_free(group, kind) for group, kind in _KINDS]
        for found in objects:
            found["metadata"].pop("ownerReferences", None)  # there is no such ElasticJob here
        self.cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(objects))
        if self.planned:
            self._make_slots(job, nodes, high)
        self._be_pod(job.namespace, account)
        join = joining.Kubernetes(f"{job.namespace}/{job.name}", job.uid, low, high, self.planned)
        return Job(join, self.cluster, f"system:serviceaccount:{job.namespace}:{account}")

    def _make_slots(self, job: jobs.Job, nodes: int, high: int) -> None:
        api = kube.Kube(kubeconfig=str(self.cluster.kubeconfig))
        round_ = children.config_map(job, changing.started(job.uid, range(nodes)))
        leases = [children.slot_lease(job, slot) for slot in range(high)]
        for found in (round_, *leases):
            found["metadata"].pop("ownerReferences")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:  # they are many, and kubectl takes its time
            made = pool.map(api.create, [kube.CONFIG_MAP, *([kube.LEASE] * high)], [round_, *leases])
        if None in made:
            raise RuntimeError(f"job {job.name} is there already")

    def _be_pod(self, namespace: str, account: str) -> None:
        token = self.cluster.kubectl("-n", namespace, "create", "token", account, "--duration=2h").strip()
        (found,) = yaml.safe_load(self.cluster.kubeconfig.read_text())["clusters"]
        authority = base64.b64decode(found["cluster"]["certificate-authority-data"])
        quiet.be_pod(found["cluster"]["server"], token=token, authority=authority, namespace=namespace)


def _account(job: jobs.Job) -> dict[str, Any]:
    metadata = {"name": names.worker(job.name), "namespace": job.namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _binding(job: jobs.Job) -> dict[str, Any]:
    name, group = names.worker(job.name), children.RBAC
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": job.namespace},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": job.namespace}],
    }


_KINDS = (("", "configmaps"), ("coordination.k8s.io", "leases"))


def _free(group: str, kind: str) -> dict[str, Any]:
    """The rule of a Role for pods that make their objects themselves."""
    return {"apiGroups": [group], "resources": [kind], "verbs": ["get", "list", "watch", "create", "update"]}


@dataclasses.dataclass(frozen=True)
class C10d:
    """Torch's default, every setting as torch ships it."""

    name: str = "c10d"

    def prepare(self, nodes: int, *, low: int, high: int) -> Job:
        return Job(joining.C10d(ports.free(), uuid.uuid4().hex, low, high))


@dataclasses.dataclass(frozen=True)
class EtcdV2:
    """Torch's etcd-v2, on an etcd of this machine that still speaks the API of version 2."""

    port: int
    name: str = "etcd-v2"

    def prepare(self, nodes: int, *, low: int, high: int) -> Job:
        return Job(joining.EtcdV2(self.port, uuid.uuid4().hex, low, high))


@contextlib.contextmanager
def etcd_v2() -> Iterator[EtcdV2]:
    """A running etcd with its API of version 2. Debian's package is unpacked, not installed.

    Raises:
        ImportError, OSError, subprocess.SubprocessError: it is not to be had; the benchmark says so and goes on.
    """
    import etcd  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415, F401 - torch's client

    program = shutil.which("etcd") or str(_unpacked() / "usr/bin/etcd")
    port = ports.free()
    with tempfile.TemporaryDirectory(dir=quiet.MEMORY) as data:  # as the API server's etcd: nothing waits for a disk
        client, peer = f"http://{ADDRESS}:{port}", f"http://{ADDRESS}:{ports.free()}"
        flags = {"data-dir": data, "listen-client-urls": client, "advertise-client-urls": client}
        flags |= {"listen-peer-urls": peer, "initial-advertise-peer-urls": peer, "initial-cluster": f"default={peer}"}
        server = subprocess.Popen(
            [program, "--enable-v2", *(f"--{key}={value}" for key, value in flags.items())],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _await(f"{client}/v2/keys/")
            yield EtcdV2(port)
        finally:
            server.kill()
            server.wait()


def _unpacked() -> pathlib.Path:
    """Debian's etcd, which is old enough for the API of version 2: the newest hasn't it any more."""

    def unpack(folder: pathlib.Path) -> None:
        folder.mkdir(parents=True)
        subprocess.run(["apt-get", "download", "etcd-server"], cwd=folder, check=True, capture_output=True, timeout=300)
        (archive,) = folder.glob("*.deb")
        subprocess.run(["dpkg", "--extract", archive, folder], check=True, capture_output=True)
        archive.unlink()

    return caching.made(caching.root() / "bench" / "etcd-server", unpack)


def _await(url: str, patience: float = 20.0) -> None:
    until = time.monotonic() + patience
    while True:
        try:
            urllib.request.urlopen(url, timeout=2).close()  # noqa: S310 - our own address
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return
