"""Every call to the API server, and nothing else: the only module that touches the ``kubernetes`` client.

Objects come and go as plain dictionaries. A lost race, a missing object and an existing one are return values; what
keeps a call from having an outcome is one of the errors below. Retrying is the caller's: it knows the deadline.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

from elasticjob_rendezvous import credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Object = dict[str, Any]
Selector = dict[str, str]
"""``fieldSelector`` or ``labelSelector``, as in the API's query string."""

REQUEST_TIMEOUT = 5.0
"""Seconds for one request: an API server that needs longer is treated as one that does not answer."""

MORE_TIME = 4.0
"""How many times as long a request may take at most, where those before it were not answered in time."""

CREDENTIALS_SECONDS = 30.0
"""So long credentials are used before the client is asked again: it does much for that. One that reads a token's file
does it once a minute."""

LISTED = "LISTED"
"""The first event of a watch from the beginning: a list, whose ``items`` are the objects that there are."""

MAX_LISTED = 16384
"""Objects that are taken in before a list is complete: 1024 Leases, sixteen times over."""

WATCH_SECONDS = 300
"""After so long the server ends a watch by itself; a new one starts where it ended."""

QUIET_SECONDS = 75.0
"""A watch that brings nothing for so long, not even a bookmark (one a minute), is taken for a dead connection."""

MAX_RESPONSE = 16 * 1024 * 1024
"""Bytes of one response that are read: 1024 Leases with full annotations, twice over."""

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _GONE, _TOO_MANY, _SERVER = 401, 403, 404, 410, 429, 500
_FROM_THE_BEGINNING = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
_COMPLETE = "k8s.io/initial-events-end"
"""Annotation of the bookmark behind the last object of a list that came as a watch."""


class KubeError(Exception):
    """A call to the API that had no outcome."""


class UnreachableError(KubeError):
    """No answer, or one that says "later" (429, 5xx). ``retry_after`` is the server's wish in seconds, 0 for none."""

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ForbiddenError(KubeError):
    """The ServiceAccount lacks a right (403), or its token is not accepted even after it was read again (401)."""


class GoneError(KubeError):
    """The watch cannot go on from where it was (410): list again."""


class RejectedError(KubeError):
    """The API server does not accept the request at all: a bug, or an unusual cluster."""


class _NotFoundError(KubeError):
    """404, in the API server's own words."""


class _ConflictError(KubeError):
    """409."""


_OUTCOMES: dict[int, type[KubeError]] = {_NOT_FOUND: _NotFoundError, 409: _ConflictError, _GONE: GoneError}


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of object, as it stands in paths and bodies."""

    api_version: str
    name: str
    plural: str

    def path(self, namespace: str, name: str = "") -> str:
        """The URL's path of the collection, or of one object."""
        root = "/apis" if "/" in self.api_version else "/api"
        return f"{root}/{self.api_version}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")


CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")


class Api(Protocol):
    """What the rest of the package needs of the API."""

    @property
    def namespace(self) -> str:
        """Where all objects are."""

    def get(self, kind: Kind, name: str) -> Object | None:
        """The object, or None where there is none."""

    def create(self, kind: Kind, body: Object) -> Object | None:
        """The created object, or None where one of that name exists."""

    def replace(self, kind: Kind, body: Object) -> Object | None:
        """The written object, or None where *body*'s ``resourceVersion`` is no longer the current one."""

    def list(self, kind: Kind, selector: Selector) -> tuple[list[Object], str]:
        """The selected objects and the list's version."""

    def watch(self, kind: Kind, selector: Selector, version: str) -> Iterator[tuple[str, Object]]:
        """Event types and objects after *version*, until the server or a quiet connection ends it.

        With ``""`` for version it is from the beginning, and the first event is :data:`LISTED`.
        """


class Kube:
    """The API server through the ``kubernetes`` client. Calls may come from any thread."""

    def __init__(
        self, *, kubeconfig: str = "", context: str = "", namespace: str = "", timeout: float = REQUEST_TIMEOUT
    ) -> None:
        """A client with the pod's ServiceAccount, or a kubeconfig where one is named or there is no ServiceAccount.

        A request may take *timeout* seconds, or longer after one that was not answered in time; a watch lasts.

        Raises:
            ForbiddenError: there is neither, or it can't be read.
        """
        self._configure: Callable[[], tuple[Any, str]] = lambda: _configured(kubeconfig, context)
        self._timeout = self.allowed = timeout
        """The second is what a request may take at present, in seconds."""
        self._credentials: tuple[float, dict[str, str]] = (0.0, {})
        """Headers, and until when they are used."""
        self._lock = threading.Lock()
        self._streams = True
        """Whether a watch may begin with a list, which saves a request: since Kubernetes 1.32, if not switched off."""
        self._client, default_namespace = self._configure()
        self.namespace = namespace or default_namespace

    @property
    def host(self) -> str:
        """The API server's URL."""
        return str(self._client.configuration.host)

    def get(self, kind: Kind, name: str) -> Object | None:
        with contextlib.suppress(_NotFoundError):
            return self._one("get", kind, name=name)
        return None

    def create(self, kind: Kind, body: Object) -> Object | None:
        with contextlib.suppress(_ConflictError):
            return self._one("create", kind, body=_typed(kind, body))
        return None

    def replace(self, kind: Kind, body: Object) -> Object | None:
        with contextlib.suppress(_ConflictError, _NotFoundError):
            return self._one("update", kind, name=body["metadata"]["name"], body=_typed(kind, body))
        return None

    def list(self, kind: Kind, selector: Selector) -> tuple[list[Object], str]:
        found = self._call("list", kind, query=selector)
        with _explained(self._what("list", kind)):
            return found["items"], found["metadata"]["resourceVersion"]

    def watch(self, kind: Kind, selector: Selector, version: str) -> Iterator[tuple[str, Object]]:
        if not version and self._streams:
            try:
                yield from _gathered(self._watch(kind, {**selector, **_FROM_THE_BEGINNING}))
            except RejectedError:
                self._streams = False
            else:
                return
        if not version:
            found = self._call("list", kind, query=selector)
            yield LISTED, found
            version = found["metadata"]["resourceVersion"]
        yield from self._watch(kind, {**selector, "resourceVersion": version})

    def _watch(self, kind: Kind, query: Selector) -> Iterator[tuple[str, Object]]:
        query = {**query, "watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        what = self._what("watch", kind)
        with _explained(what), self._response("watch", kind, query=query, read_timeout=QUIET_SECONDS) as response:
            yield from _events(response)

    def _one(self, verb: str, kind: Kind, **request: Any) -> Object:
        found: Object = self._call(verb, kind, **request)
        with _explained(self._what(verb, kind)):
            if not found["metadata"]["resourceVersion"]:
                raise UnreachableError(f"{self._what(verb, kind)}: an object without a version")
        return found

    def _call(self, verb: str, kind: Kind, **request: Any) -> Any:
        what = self._what(verb, kind)
        with _explained(what), self._response(verb, kind, **request) as response:
            data = response.read(MAX_RESPONSE + 1)
            if len(data) > MAX_RESPONSE:
                raise RejectedError(f"{what}: more than {MAX_RESPONSE} bytes")
            return json.loads(data)

    @contextlib.contextmanager
    def _response(self, verb: str, kind: Kind, **request: Any) -> Iterator[Any]:
        """The response of a request that succeeded. A token that is not accepted is read again, once: it may be old."""
        response = self._send(verb, kind, **request)
        if response.status == _UNAUTHORIZED:
            response.drain_conn()
            with self._lock:
                self._client, _ = self._configure()
                self._credentials = (0.0, {})
            response = self._send(verb, kind, **request)
        try:
            _check(self._what(verb, kind), verb, kind, response)
            yield response
        except BaseException:
            response.close()
            raise
        finally:
            response.release_conn()

    def _send(
        self,
        verb: str,
        kind: Kind,
        *,
        name: str = "",
        body: Object | None = None,
        query: Selector | None = None,
        read_timeout: float = 0.0,
    ) -> Any:
        """Through the client's connections, past what it does for any kind of request: that takes longer than ours.

        Where it was not answered in time the next ones may take longer, and twice what an answer took: a server that
        has too much to do would do the same work again for each request that was given up.
        """
        from urllib3 import Timeout  # noqa: PLC0415 - the client's own dependency
        from urllib3.exceptions import TimeoutError as TimedOut  # noqa: PLC0415

        client, began, most = self._client, time.monotonic(), self._timeout * MORE_TIME
        try:
            response = client.rest_client.pool_manager.urlopen(
                {"create": "POST", "update": "PUT"}.get(verb, "GET"),
                client.configuration.host + kind.path(self.namespace, name) + (f"?{urlencode(query)}" if query else ""),
                headers=self._headers(client.configuration),
                body=None if body is None else json.dumps(body).encode(),
                timeout=Timeout(connect=self.allowed, read=read_timeout or self.allowed),
                preload_content=False,
            )
        except TimedOut:
            self.allowed = min(self.allowed * 2, most)
            raise
        self.allowed = min(max(self._timeout, 2 * (time.monotonic() - began)), most)
        return response

    def _headers(self, configuration: Any) -> dict[str, str]:
        """A request's headers."""
        until, headers = self._credentials
        if time.monotonic() >= until:
            settings = configuration.auth_settings().values()
            headers = {
                "Accept": "application/json",
                "Content-Type": "application/json",
                "User-Agent": "elasticjob-rendezvous",
                **{setting["key"]: setting["value"] for setting in settings if setting["value"]},
            }
            self._credentials = (time.monotonic() + CREDENTIALS_SECONDS, headers)
        return headers

    def _what(self, verb: str, kind: Kind) -> str:
        return f"{verb} {kind.plural} in namespace {self.namespace}"


def _configured(kubeconfig: str, context: str) -> tuple[Any, str]:
    try:
        return credentials.client(kubeconfig, context)
    except credentials.NoCredentialsError as error:
        raise ForbiddenError(str(error)) from error


def _typed(kind: Kind, body: Object) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.name, **body}


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turns what the client and its transport raise into our errors."""
    from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - a second to import
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - the client's own dependency

    try:
        yield
    except (ApiException, HTTPError, OSError) as error:
        raise UnreachableError(f"{what}: {' '.join(str(error).split())[:500]}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UnreachableError(f"{what}: not an API server's answer (a proxy's?): {error!r}") from error


def _check(what: str, verb: str, kind: Kind, response: Any) -> None:
    """Raises the error that the response's status stands for."""
    status = response.status
    if status < 300:  # noqa: PLR2004 - 2xx; the client follows redirects itself
        return
    text = response.read(MAX_RESPONSE).decode(errors="replace")
    told = _told(text)
    if status == _NOT_FOUND and not _is_absence(text):
        raise UnreachableError(f"{what}: not an API server's 404 (a proxy's?): {told}")
    if status in _OUTCOMES:
        raise _OUTCOMES[status](f"{what}: {told}")
    if status == _UNAUTHORIZED:
        raise ForbiddenError(f"{what}: the API server does not accept this token or certificate (401): {told}")
    if status == _FORBIDDEN:
        raise ForbiddenError(f"{what} is forbidden: a Role must allow verb {verb} on {kind.plural}: {told}")
    if status == _TOO_MANY or status >= _SERVER:
        raise UnreachableError(f"{what}: {status} {told}", retry_after=_retry_after(response.headers))
    raise RejectedError(f"{what}: {status} {told}")


def _is_absence(text: str) -> bool:
    """Whether a 404 speaks of an object. A proxy's or an unknown path's does not, and must not cost a slot."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        data = json.loads(text)
        return bool(data["kind"] == "Status" and data["reason"] == "NotFound")
    return False


def _told(text: str) -> str:
    """What the server said, in one bounded line."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        text = str(json.loads(text)["message"])
    return " ".join(text[:500].split())


def _retry_after(headers: Any) -> float:
    text = str(headers.get("Retry-After", ""))
    return min(float(text), 60.0) if text.isdecimal() else 0.0


def _events(response: Any) -> Iterator[tuple[str, Object]]:
    """The events of a watch. A quiet connection ends it like the server does; what can't be read is an error."""
    from urllib3.exceptions import ReadTimeoutError  # noqa: PLC0415 - the client's own dependency

    pending = b""
    with contextlib.suppress(ReadTimeoutError):
        for chunk in response.stream(amt=None, decode_content=True):
            *lines, pending = (pending + chunk).split(b"\n")
            if len(pending) > MAX_RESPONSE:
                raise RejectedError(f"watch: an event of more than {MAX_RESPONSE} bytes")
            yield from map(_event, filter(None, lines))


def _gathered(events: Iterator[tuple[str, Object]]) -> Iterator[tuple[str, Object]]:
    """The same events, those that make up the list at its beginning as one."""
    items: list[Object] = []
    for kind, found in events:
        if kind == "BOOKMARK" and _COMPLETE in (found["metadata"].get("annotations") or {}):
            yield LISTED, {"items": items, "metadata": found["metadata"]}
            yield from events
            return
        items.append(found)
        if len(items) > MAX_LISTED:
            raise RejectedError(f"watch: a list of more than {MAX_LISTED} objects")


def _event(line: bytes) -> tuple[str, Object]:
    event = json.loads(line)
    kind, found = str(event["type"]), event["object"]
    if kind == "ERROR":
        if found.get("code") == _GONE:
            raise GoneError(str(found.get("message")))
        raise UnreachableError(f"watch: {found.get('message')}")
    return kind, found
