"""One request to the API server: JSON in, JSON out, a timeout on each, every failure one of ``errors``.

``kubernetes.aio`` is used for what is hard (kubeconfig, TLS, tokens that are renewed), not for its models, retries and
content types, which differ from what we need in ways that are easy to miss.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping
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

REPEATS, REPEAT_SECONDS, PATIENCE_SECONDS = 4, 0.2, 5.0
"""A read that the server has no time for is repeated so often, after a pause that doubles, or the one that the server
asks for if it is no longer than the last: a look at a job reads much, and would come to nothing by one busy moment."""

LAG_SECONDS = 60.0
"""So long an API server may lag behind what was read from it before."""

WATCH_SECONDS, SILENT_SECONDS = 300, 150
"""A watch is begun anew after so long, and given up when nothing comes for so long: bookmarks come every minute."""

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
    "Node": ("/api/v1", "nodes"),
    "ResourceQuota": ("/api/v1", "resourcequotas"),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses"),
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
        self._newest: dict[str, int] = {}  # by kind: only versions of one kind can be compared
        self._behind: dict[str, float] = {}

    async def request(
        self,
        method: str,
        where: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        seconds: float = REQUEST_SECONDS,
    ) -> dict[str, Any]:
        """Send one request; its JSON answer. A read that gets none for now is repeated a few times.

        Raises:
            errors.ApiError: there was no good one.
        """
        repeats = REPEATS if method == "GET" else 0  # whether a write was carried out is not known
        for number in range(repeats):
            try:
                return await self._once(method, where, query, body, seconds)
            except errors.UnavailableError as error:
                pause = error.retry_after or REPEAT_SECONDS * 2**number
                if not error.status or pause > PATIENCE_SECONDS:
                    raise
                await asyncio.sleep(pause)
        return await self._once(method, where, query, body, seconds)

    async def _once(
        self,
        method: str,
        where: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        seconds: float,
    ) -> dict[str, Any]:
        response = await self._send(method, where, query, body, aiohttp.ClientTimeout(total=seconds))
        with _connection_errors(method, where):
            return dict(json.loads(await response.read()))

    async def watch(self, kind: str, namespace: str | None, query: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        """The events of a kind from *query*'s ``resourceVersion`` on, bookmarks included, until the server ends them.

        Raises:
            errors.ApiError: the watch can't be had, or is cut off.
        """
        where, extra = path(kind, namespace), {"watch": "true", "allowWatchBookmarks": "true"}
        extra |= {"timeoutSeconds": str(WATCH_SECONDS), **query}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=SILENT_SECONDS)
        response, rest = await self._send("GET", where, extra, None, timeout), b""
        try:
            with _connection_errors("watch", where):
                async for chunk in response.response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield json.loads(line)
        finally:
            response.response.close()

    async def _send(
        self,
        method: str,
        where: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        timeout: aiohttp.ClientTimeout,
    ) -> Any:
        """The response, its body not read yet. Raises ``errors.ApiError`` if it is not a good one."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        await self._client.update_params_for_auth(headers, [], ["BearerToken"], where, method, body)
        params = "&".join(f"{key}={parse.quote(value, safe='')}" for key, value in (query or {}).items())
        url = f"{self._client.configuration.host}{where}{'?' + params if params else ''}"
        with _connection_errors(method, where):
            response = await self._client.rest_client.request(
                method, url, headers=headers, body=body, _request_timeout=timeout
            )
            if 200 <= response.status < 300:  # noqa: PLR2004 - HTTP's own words for success
                return response
            content = await response.read()
        raise errors.from_response(response.status, content, response.headers.get("Retry-After"))

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """The object, or ``None`` where there is none."""
        try:
            return self._known(kind, await self.request("GET", path(kind, namespace, name)))
        except errors.NotFoundError:
            return None

    async def list(self, kind: str, namespace: str | None, selector: str = "") -> list[dict[str, Any]]:
        """All objects of a kind, in one namespace or in all, that *selector* fits."""
        query = {"labelSelector": selector} if selector else {}
        return [item async for page in self.pages(kind, namespace, query) for item in page.get("items") or ()]

    async def pages(self, kind: str, namespace: str | None, query: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        """A list, page by page; each says the ``resourceVersion`` from which a watch goes on.

        Raises:
            errors.UnavailableError: (among others) it is older than what was known of this kind before it was asked
                for, as from an API server that lags behind another: what is not in it may be there all the same.
        """
        more = ""
        while True:
            asked = {"limit": str(PAGE), **query, **({"continue": more} if more else {})}
            known = self._newest.get(kind, 0)
            found = await self.request("GET", path(kind, namespace), query=asked)
            if not more:  # later pages are of the first one's time
                self._check(kind, known, _version(found))
            yield found
            more = found["metadata"].get("continue")
            if not more:
                return

    async def create(self, kind: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Make the object. A pod is made of what a person has written: no field of it is dropped without a word."""
        where, strict = path(kind, manifest["metadata"]["namespace"]), {"fieldValidation": "Strict"}
        made = await self.request("POST", where, query=strict if kind == "Pod" else None, body=manifest)
        return self._known(kind, made)

    async def replace(self, kind: str, manifest: Mapping[str, Any], *, sub: str = "") -> dict[str, Any]:
        """Write the object (or its *sub*resource), whose ``resourceVersion`` must still be the current one."""
        meta = manifest["metadata"]
        where = path(kind, meta["namespace"], meta["name"], sub=sub)
        return self._known(kind, await self.request("PUT", where, body=manifest))

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

    def _check(self, kind: str, known: int, version: int) -> None:
        """Refuse a list that is older than what was *known* of its kind.

        What stays so is believed in the end: the server's data may have been restored from a backup.
        """
        now = asyncio.get_running_loop().time()
        if version >= known:
            self._behind.pop(kind, None)
            self._newest[kind] = max(self._newest.get(kind, 0), version)
        elif now - self._behind.setdefault(kind, now) < LAG_SECONDS:
            raise errors.UnavailableError(0, f"the list of {kind}s is of {version}, and {known} was read before it")
        else:
            self._newest[kind] = version

    def _known(self, kind: str, found: dict[str, Any]) -> dict[str, Any]:
        self._newest[kind] = max(self._newest.get(kind, 0), _version(found))
        return found

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _version(found: Mapping[str, Any]) -> int:
    """An object's or a list's place in time, where it is one: 0 where the server numbers in another way."""
    text = str((found.get("metadata") or {}).get("resourceVersion", ""))
    return int(text) if text.isascii() and text.isdecimal() else 0


@contextlib.contextmanager
def _connection_errors(method: str, where: str) -> Iterator[None]:
    """What a connection can do to us, as one of ours."""
    try:
        yield
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
        raise errors.UnavailableError(0, f"{method} {where}: {error or type(error).__name__}") from error


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
        raise ConfigurationError(
            "no cluster to talk to: this is no pod with a ServiceAccount, and no kubeconfig can be used "
            f"(KUBECONFIG=FILE names one): {error}"
        ) from error
    return Client(settings)
