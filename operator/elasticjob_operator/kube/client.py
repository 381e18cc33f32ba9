"""One request to the API server: JSON in, JSON out, a timeout on each, every failure one of ``errors``.

``kubernetes.aio`` is used for what is hard (kubeconfig, TLS, tokens that are renewed), not for its models, retries and
content types, which differ from what we need in ways that are easy to miss.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib import parse

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import api_client, configuration
from kubernetes.aio.config import config_exception

from elasticjob_operator.api import names
from elasticjob_operator.kube import errors

REQUEST_SECONDS = 30
"""For one request: well above what a busy control plane needs, and below the Lease that a stuck worker would lose."""

POOL = 64
"""Connections at the same time: all workers' parallel writes."""

PAGE = 500
"""Objects a page of a long list, as kubectl asks for."""

_untyped: Any = config

RBAC = "/apis/rbac.authorization.k8s.io/v1"
_PATHS = {
    "ElasticJob": (f"/apis/{names.API_VERSION}", names.PLURAL),
    "Pod": ("/api/v1", "pods"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Service": ("/api/v1", "services"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    "Role": (f"{RBAC}", "roles"),
    "RoleBinding": (f"{RBAC}", "rolebindings"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "Event": ("/apis/events.k8s.io/v1", "events"),
}


class ConfigurationError(Exception):
    """There is no cluster to talk to: neither a ServiceAccount nor a usable kubeconfig."""


def path(kind: str, namespace: str | None, name: str = "", *, sub: str = "") -> str:
    """The URL path of a collection, an object, or an object's subresource."""
    base, plural = _PATHS[kind]
    scope = f"/namespaces/{namespace}" if namespace else ""
    return "/".join(part for part in (f"{base}{scope}/{plural}", name, sub) if part)


class Client:
    """The API server. One for the whole process: its connections are shared."""

    def __init__(self, settings: Any) -> None:
        settings.connection_pool_maxsize = POOL
        settings.client_session_kwargs = {"trust_env": False}  # an HTTP_PROXY is for the world outside
        self._client: Any = api_client.ApiClient(settings)

    async def request(
        self,
        method: str,
        where: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        seconds: float = REQUEST_SECONDS,
    ) -> dict[str, Any]:
        """Send one request; its JSON answer.

        Raises:
            errors.ApiError: there was no good one.
        """
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        await self._client.update_params_for_auth(headers, [], ["BearerToken"], where, method, body)
        params = "&".join(f"{key}={parse.quote(value, safe='')}" for key, value in (query or {}).items())
        url = f"{self._client.configuration.host}{where}{'?' + params if params else ''}"
        try:
            response = await self._client.rest_client.request(
                method, url, headers=headers, body=body, _request_timeout=aiohttp.ClientTimeout(total=seconds)
            )
            content = await response.read()
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise errors.UnavailableError(0, f"{method} {where}: {error or type(error).__name__}") from error
        if not 200 <= response.status < 300:  # noqa: PLR2004 - HTTP's own words for success
            raise errors.from_response(response.status, content, response.headers.get("Retry-After"))
        return dict(json.loads(content))

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """The object, or ``None`` where there is none."""
        try:
            return await self.request("GET", path(kind, namespace, name))
        except errors.NotFoundError:
            return None

    async def list(self, kind: str, namespace: str | None, selector: str = "") -> list[dict[str, Any]]:
        """All objects of a kind, in one namespace or in all, that *selector* fits."""
        return [item async for item in self._pages(path(kind, namespace), selector)]

    async def _pages(self, where: str, selector: str) -> AsyncIterator[dict[str, Any]]:
        query = {"limit": str(PAGE), **({"labelSelector": selector} if selector else {})}
        while True:
            found = await self.request("GET", where, query=query)
            for item in found.get("items") or ():
                yield item
            more = found["metadata"].get("continue")
            if not more:
                return
            query["continue"] = more

    async def create(self, kind: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Make the object."""
        return await self.request("POST", path(kind, manifest["metadata"]["namespace"]), body=manifest)

    async def replace(self, kind: str, manifest: Mapping[str, Any], *, sub: str = "") -> dict[str, Any]:
        """Write the object (or its *sub*resource), whose ``resourceVersion`` must still be the current one."""
        meta = manifest["metadata"]
        return await self.request("PUT", path(kind, meta["namespace"], meta["name"], sub=sub), body=manifest)

    async def delete(
        self, kind: str, namespace: str, name: str, *, uid: str, version: str = "", force: bool = False
    ) -> None:
        """Delete this very object, in this very version; one that is gone, or is another by now, is no error.

        *force*: a pod without its grace period.
        """
        preconditions = {"uid": uid, **({"resourceVersion": version} if version else {})}
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
        if force:
            body["gracePeriodSeconds"] = 0
        try:
            await self.request("DELETE", path(kind, namespace, name), body=body)
        except (errors.NotFoundError, errors.ConflictError):
            return

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


async def connect() -> Client:
    """A client with the pod's ServiceAccount, else with the kubeconfig of the environment.

    Raises:
        ConfigurationError: there is neither.
    """
    settings = configuration.Configuration()
    try:
        if os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG"):
            _untyped.load_incluster_config(client_configuration=settings)
        else:
            await _untyped.load_kube_config(client_configuration=settings)
    except (config_exception.ConfigException, OSError) as error:
        raise ConfigurationError(f"no cluster to talk to: {error}") from error
    return Client(settings)
