"""A job as its user sees it: apply, scale, and look at its status."""

import contextlib
from typing import Any

from elasticjob_operator.kube import client as clients
from elasticjob_operator.kube import errors
from support import operator_builders as build
from support.operator_cluster import PATIENCE, until
from support.operator_simulation import Simulation


class Job:
    """The job under test, seen as its user sees it."""

    def __init__(self, admin: clients.Client, simulation: Simulation) -> None:
        self._admin = admin
        self.simulation = simulation
        self.namespace = simulation.namespace

    async def apply(self, **fields: Any) -> None:
        """Create it."""
        manifest = build.manifest(self.simulation.job, **fields)
        manifest["metadata"]["namespace"] = self.namespace
        await self._admin.create("ElasticJob", manifest)

    async def scale(self, nodes: int) -> None:
        """``kubectl scale``."""
        where = clients.path("ElasticJob", self.namespace, self.simulation.job, sub="scale")
        found = await self._admin.request("GET", where)
        found["spec"]["replicas"] = nodes
        del found["metadata"]["resourceVersion"]  # whatever was written meanwhile
        await self._admin.request("PUT", where, body=found)

    async def edit(self, **fields: Any) -> None:
        """``kubectl edit``: other fields in its spec."""

        async def edited() -> bool:
            found = await self._admin.get("ElasticJob", self.namespace, self.simulation.job)
            assert found is not None
            found["spec"] = {name: value for name, value in {**found["spec"], **fields}.items() if value is not None}
            with contextlib.suppress(errors.ConflictError):  # its status was written meanwhile
                return bool(await self._admin.replace("ElasticJob", found))
            return False

        await until(edited)

    async def status(self) -> dict[str, Any]:
        """Its status."""
        found = await self._admin.get("ElasticJob", self.namespace, self.simulation.job)
        return dict((found or {}).get("status") or {})

    async def trains(self, nodes: int, *, seconds: float = PATIENCE) -> dict[str, Any]:
        """Wait until it trains on so many nodes; its status then."""

        async def settled() -> dict[str, Any] | None:
            status = await self.status()
            fits = status.get("state") == "Running" and status.get("nodes") == status.get("wantedNodes") == nodes
            return status if fits and len(await self.simulation.pods()) >= nodes else None

        return dict(await until(settled, seconds=seconds))

    async def comes_to(self, field: str, value: object, *, seconds: float = PATIENCE) -> None:
        """Wait until a field of its status has this value."""
        seen: dict[str, Any] = {}

        async def there() -> bool:
            seen.update(await self.status())
            return seen.get(field) == value

        try:
            await until(there, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{field} is {seen.get(field)!r}, not {value!r}: {seen}") from error

    async def reaches(self, state: str, *, seconds: float = PATIENCE) -> dict[str, Any]:
        """Wait for a state; the status then."""

        async def reached() -> dict[str, Any] | None:
            status = await self.status()
            return status if status.get("state") == state else None

        return dict(await until(reached, seconds=seconds))
