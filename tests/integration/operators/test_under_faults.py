"""A job's whole life under each fault that can be between the operator and the API server.

One operator keeps all of these jobs, each in a namespace with a fault of its own, and one to which nothing happens.
Each has to come, at every point of its life, to what that one came to; and nobody's fault may end the operator.
"""

import asyncio
import contextlib
import pathlib
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

import pytest

from cluster import LocalCluster
from elasticjob_operator.kube import client as clients
from support import audit, audit_invariants, operator_cluster
from support.operator_cluster import SYSTEM, Operator, kubeconfig_of, until
from support.operator_faults import every_fault
from support.operator_job import Job
from support.operator_outcome import Picture, at_rest, picture
from support.operator_proxy import Proxy
from support.operator_simulation import Simulation, acting

pytestmark = pytest.mark.timeout(900)

PATIENCE = 150
"""Seconds for one point of a life: a frozen request alone takes 30 s, and the machine may be a busy one."""

PACE = 0.2
"""Seconds between two looks of a simulated kubelet, of which there are many here."""

REST = 2.0
"""Seconds in which nobody writes: then there is nothing left to do."""

LEFT = ("Pod", "Lease", "Role", "RoleBinding", "NetworkPolicy", "PodDisruptionBudget", "ConfigMap", "ServiceAccount")


class Life:
    """A job from its creation to its deletion, and what it came to at each point."""

    def __init__(self, admin: clients.Client, namespace: str, like: "Life | None" = None) -> None:
        self._admin = admin
        self._like = like
        self.job = Job(admin, Simulation(admin, namespace))
        self.job.simulation.pace = PACE
        self.points: dict[str, Picture] = {}
        self.reached: set[str] = set()
        self.whole, self.onward = asyncio.Event(), asyncio.Event()
        """Half of it is over; the other half may begin."""
        self.last: Picture = {}
        """What was there when it did not go on."""

    async def run(self) -> None:
        """All of it."""
        async with acting(self.job.simulation):
            try:
                await self._live()
            except AssertionError:
                self.last = await picture(self._admin, self.job.simulation)
                raise
            finally:
                self.whole.set()

    async def _live(self) -> None:
        await self.job.apply(nodes=1, maxNodes=3)
        await self._comes_to("started", nodes=1)
        await self.job.scale(3)
        await self._comes_to("grown", nodes=3)
        await self.job.simulation.remove("digits-1-0")
        await self.job.comes_to("disruptions", 1, seconds=PATIENCE)
        await self._comes_to("whole again", nodes=3)
        self.whole.set()
        await self.onward.wait()
        await self.job.scale(1)
        await self._comes_to("shrunk", nodes=1)
        await self.job.edit(suspend=True)
        await self._comes_to("suspended", nodes=0)
        await self._admin.request("DELETE", clients.path("ElasticJob", self.job.namespace, "digits"))
        await until(self._gone, seconds=PATIENCE)

    async def _comes_to(self, point: str, *, nodes: int) -> None:
        if nodes:
            await self.job.trains(nodes, seconds=PATIENCE)
        else:
            await self.job.reaches("Suspended", seconds=PATIENCE)
        await until(lambda: self._settled(point, nodes), seconds=PATIENCE)
        self.reached.add(point)

    async def _settled(self, point: str, nodes: int) -> bool:
        """Whether it is as the other one's is or, where there is none, at rest for two looks of the kubelet."""
        before, self.points[point] = self.points.get(point), await picture(self._admin, self.job.simulation)
        if self._like:
            return point in self._like.reached and self.points[point] == self._like.points[point]
        await asyncio.sleep(2 * PACE)
        return self.points[point] == before and at_rest(self.points[point], nodes)

    async def _gone(self) -> bool:
        found = [i["metadata"]["name"] for kind in LEFT for i in await self._admin.list(kind, self.job.namespace)]
        return not any(name.startswith("digits") for name in found)


class Lives:
    """All of them, and what they told."""

    def __init__(self) -> None:
        self.faults = every_fault()
        self.ends: dict[str, BaseException | None] = {}
        self.lives: dict[str, Life] = {}
        self.survived = False
        self.restless = "nobody has looked"
        """What is still written of jobs that want nothing."""
        self.log = ""

    async def run(self, cluster: LocalCluster, folder: pathlib.Path) -> None:
        """All at once."""
        admin, way = await operator_cluster.connect(cluster.kubeconfig), Proxy.to(cluster.kubeconfig)
        places = {name: f"faults-{uuid.uuid4().hex[:8]}" for name in ("", *self.faults)}
        way.faults = {places[name]: fault for name, fault in self.faults.items()}
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(admin.close)
            for place in places.values():
                await stack.enter_async_context(operator_cluster.namespace(admin, place))
            url = await stack.enter_async_context(way.serving())
            access = kubeconfig_of(cluster, folder / "kube", account="elasticjob", namespace=SYSTEM, server=url)
            flags = ("--leader-election=false", f"--watch-namespaces={','.join(places.values())}", "--relist-seconds=3")
            operator = Operator(access, folder / "operator.log", *flags, "--autoscaler=off")
            operator.start()
            try:
                clean = Life(admin, places[""])
                self.lives = {"": clean, **{name: Life(admin, places[name], clean) for name in self.faults}}
                running = asyncio.gather(*(life.run() for life in self.lives.values()), return_exceptions=True)
                await self._rest(cluster.audit_log, places.values())
                found = await running
                self.ends = dict(zip(self.lives, found, strict=True))
                self.survived = operator.running
            finally:
                operator.kill()
                self.log = operator.text

    async def _rest(self, audit_log: pathlib.Path, places: Iterable[str]) -> None:
        """Where all jobs train, wait until nobody writes any more."""
        for life in self.lives.values():
            await life.whole.wait()

        async def quiet() -> bool:
            await asyncio.sleep(REST)
            since = datetime.now(timezone.utc) - timedelta(seconds=REST)
            written = list(audit.entries(audit_log))
            found = [one for place in places for one in audit_invariants.unrest(written, place, since)]
            self.restless = "\n".join(found)
            return not found

        with contextlib.suppress(AssertionError):  # which the test says, and not all others too
            await until(quiet, seconds=PATIENCE)
        for life in self.lives.values():
            life.onward.set()


@pytest.fixture(scope="module")
def lives(control_plane: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Lives:
    """What became of all jobs."""
    found = Lives()
    asyncio.run(found.run(control_plane, tmp_path_factory.mktemp("faults")))
    return found


def test_no_jobs_fault_ends_the_operator(lives: Lives) -> None:
    assert lives.ends[""] is None, repr(lives.ends[""])
    assert lives.survived, lives.log[-5000:]
    assert "Traceback" not in lives.log, lives.log


@pytest.mark.parametrize("fault", every_fault())
def test_a_job_lives_as_it_would_without_the_fault(lives: Lives, fault: str) -> None:
    assert lives.ends[fault] is None, f"{lives.ends[fault]!r}, last seen: {lives.lives[fault].last}"
    assert lives.lives[fault].points == lives.lives[""].points
    assert lives.faults[fault].hits > 0


def test_where_all_train_nothing_is_written_any_more(lives: Lives) -> None:
    assert lives.restless == ""


def test_nothing_was_written_that_must_never_be(lives: Lives, control_plane: LocalCluster) -> None:
    assert audit_invariants.violations(audit.entries(control_plane.audit_log)) == []
