"""A Kubernetes API server in this process, as far as the rendezvous needs one: ConfigMaps and Leases over HTTP.

The wire is the real one's: optimistic concurrency, lists, watches, 404, 409, 410. With knobs for what a real one can't
be made to do on command, and a log of every request.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import http.server
import json
import re
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

    from elasticjob_rendezvous import kube

Object = dict[str, Any]

_PATH = re.compile(r"/(?:api/v1|apis/coordination\.k8s\.io/v1)/namespaces/([^/]+)/(configmaps|leases)(?:/([^/]+))?")
_KINDS = {"configmaps": ("v1", "ConfigMap"), "leases": ("coordination.k8s.io/v1", "Lease")}


@dataclasses.dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    verb: str
    kind: str
    name: str
    client: str
    at: float


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """An answer that is not a success."""

    def __init__(self, code: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.code, self.message, self.headers = code, message, headers


class FakeApi:
    """The objects, their history, and the knobs."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.disturb: Callable[[Request], None] = lambda request: None
        """Called before a request is served: may sleep, or raise :class:`Refused` or ``ConnectionError``."""
        self.disturb_reply: Callable[[Request], None] = lambda request: None
        """Called after a request was served and before it is answered: raising loses the reply."""
        self.refusing: Callable[[int], object] = lambda code: None
        """Called with the code of every answer that is not a success."""
        self.frozen: Callable[[Request], bool] = lambda request: False
        """Whether a watch brings nothing at present, though its connection stays open."""
        self.streams = True
        """Whether a watch may begin with a list, as on a real server unless that is switched off or it is old."""
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._history: list[tuple[int, str, tuple[str, str, str], Object]] = []
        self._version = 100
        self._news = threading.Condition()

    # What tests ask

    def count(self, verb: str = "", kind: str = "") -> int:
        return sum(1 for r in self.requests if verb in ("", r.verb) and kind in ("", r.kind))

    def forget_history(self) -> None:
        """Every running watch ends with 410, as after etcd's compaction."""
        with self._news:
            self._history.clear()
            self._version += 1000
            self._news.notify_all()

    def get(self, namespace: str, kind: str, name: str) -> Object:
        with self._news:
            found = self._objects.get((namespace, kind, name))
            if found is None:
                raise Refused(404, f"{kind} {name!r} not found")
            return copy.deepcopy(found)

    def list(self, namespace: str, kind: str, query: dict[str, str]) -> Object:
        with self._news:
            items = [
                copy.deepcopy(o) for k, o in sorted(self._objects.items()) if _selected(k, o, namespace, kind, query)
            ]
            return {"items": items, "metadata": {"resourceVersion": str(self._version)}}

    def create(self, namespace: str, kind: str, body: Object) -> Object:
        with self._news:
            key = (namespace, kind, body["metadata"]["name"])
            if key in self._objects:
                raise Refused(409, f"{kind} {key[2]!r} already exists")
            body = copy.deepcopy(body)
            body["metadata"] = {**body["metadata"], "namespace": namespace, "uid": str(uuid.uuid4())}
            return self._store("ADDED", key, body)

    def replace(self, namespace: str, kind: str, name: str, body: Object) -> Object:
        with self._news:
            key = (namespace, kind, name)
            old = self._objects.get(key)
            if old is None:
                raise Refused(404, f"{kind} {name!r} not found")
            wanted = body["metadata"].get("resourceVersion")
            if wanted and wanted != old["metadata"]["resourceVersion"]:
                raise Refused(409, f"{kind} {name!r} has been modified")
            return self._store("MODIFIED", key, copy.deepcopy(body))

    def delete(self, namespace: str, kind: str, name: str) -> Object:
        with self._news:
            key = (namespace, kind, name)
            if key not in self._objects:
                raise Refused(404, f"{kind} {name!r} not found")
            body = self._objects.pop(key)
            self._store("DELETED", key, body)
            del self._objects[key]
            return body

    def _store(self, event: str, key: tuple[str, str, str], body: Object) -> Object:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        body["apiVersion"], body["kind"] = _KINDS[key[1]]
        self._objects[key] = body
        self._history.append((self._version, event, key, copy.deepcopy(body)))
        self._news.notify_all()
        return copy.deepcopy(body)

    def watch(
        self, request: Request, namespace: str, kind: str, query: dict[str, str], until: float
    ) -> Iterator[Object]:
        if "sendInitialEvents" in query:
            listed = self.list(namespace, kind, query)
            position = int(listed["metadata"]["resourceVersion"])
            yield from ({"type": "ADDED", "object": body} for body in listed["items"])
            end = {"resourceVersion": str(position), "annotations": {"k8s.io/initial-events-end": "true"}}
            yield {"type": "BOOKMARK", "object": {"metadata": end}}
        else:
            position = int(query["resourceVersion"])
        while time.monotonic() < until:
            with self._news:
                if self.frozen(request):
                    self._news.wait(0.1)
                    continue
                lost = self._history[0][0] > position + 1 if self._history else self._version > position
                new = [] if lost else [h for h in self._history if h[0] > position]
                if not new and not lost:
                    self._news.wait(0.2)
                    continue
            if lost:
                yield {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
                return
            for version, event, key, body in new:
                position = version
                if _selected(key, body, namespace, kind, query):
                    yield {"type": event, "object": body}


def _selected(key: tuple[str, str, str], body: Object, namespace: str, kind: str, query: dict[str, str]) -> bool:
    if key[:2] != (namespace, kind):
        return False
    field = query.get("fieldSelector", "")
    if field and field != f"metadata.name={key[2]}":
        return False
    labels = body["metadata"].get("labels") or {}
    for term in filter(None, query.get("labelSelector", "").split(",")):
        name, equals, value = term.partition("=")
        if name not in labels or (equals and labels[name] != value):
            return False
    return True


class Direct:
    """The fake API server without the wire: what the package asks of its client (``kube.Api``), for one *client*."""

    namespace = "default"

    def __init__(self, api: FakeApi, client: str = "test") -> None:
        self._api, self._client = api, client

    def get(self, kind: kube.Kind, name: str) -> Object | None:
        return self._asked("get", kind, name, lambda: self._api.get(self.namespace, kind.plural, name), 404)

    def create(self, kind: kube.Kind, body: Object) -> Object | None:
        name = body["metadata"]["name"]
        return self._asked("create", kind, name, lambda: self._api.create(self.namespace, kind.plural, body), 409)

    def replace(self, kind: kube.Kind, body: Object) -> Object | None:
        name = body["metadata"]["name"]
        return self._asked(
            "update", kind, name, lambda: self._api.replace(self.namespace, kind.plural, name, body), 404, 409
        )

    def list(self, kind: kube.Kind, selector: kube.Selector) -> tuple[list[Object], str]:
        found = self._asked("list", kind, "", lambda: self._api.list(self.namespace, kind.plural, selector))
        return ([], "0") if found is None else (found["items"], found["metadata"]["resourceVersion"])

    def watch(self, kind: kube.Kind, selector: kube.Selector, version: str) -> Iterator[tuple[str, Object]]:
        request = Request("watch", kind.plural, "", self._client, time.monotonic())
        self._api.requests.append(request)
        if not version:
            found = self._api.list(self.namespace, kind.plural, selector)
            yield "LISTED", found
            version = found["metadata"]["resourceVersion"]
        query = {**selector, "resourceVersion": version}
        for event in self._api.watch(request, self.namespace, kind.plural, query, time.monotonic() + 60):
            yield event["type"], event["object"]

    def _asked(
        self, verb: str, kind: kube.Kind, name: str, serve: Callable[[], Object], *answers: int
    ) -> Object | None:
        self._api.requests.append(Request(verb, kind.plural, name, self._client, time.monotonic()))
        try:
            return serve()
        except Refused as refused:
            if refused.code in answers:
                return None
            raise


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: FakeApi

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve("get")

    def do_POST(self) -> None:
        self._serve("create")

    def do_PUT(self) -> None:
        self._serve("update")

    def do_DELETE(self) -> None:
        self._serve("delete")

    def _serve(self, verb: str) -> None:
        url = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(url.query).items()}
        path = _PATH.fullmatch(url.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        if path is None:
            self._answer(404, {"message": "no such path"})
            return
        namespace, kind, name = path[1], path[2], path[3] or ""
        verb = "watch" if query.get("watch") else "list" if verb == "get" and not name else verb
        client = self.headers.get("Authorization", "").rpartition(" ")[2]
        request = Request(verb, kind, name, client, time.monotonic())
        self.api.requests.append(request)
        try:
            self.api.disturb(request)
            if verb == "watch":
                self._watch(request, namespace, kind, query)
                return
            found = self._find(request, namespace, body, query)
            self.api.disturb_reply(request)
            self._answer(200, found)
        except Refused as refused:
            self.api.refusing(refused.code)
            reason = {404: "NotFound"}.get(refused.code, "")
            status = {"kind": "Status", "code": refused.code, "message": refused.message, "reason": reason}
            self._answer(refused.code, status, refused.headers)
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _find(self, request: Request, namespace: str, body: Object, query: dict[str, str]) -> Object:
        verb, kind, name = request.verb, request.kind, request.name
        if verb == "list":
            return self.api.list(namespace, kind, query)
        if verb == "get":
            return self.api.get(namespace, kind, name)
        if verb == "create":
            return self.api.create(namespace, kind, body)
        if verb == "update":
            return self.api.replace(namespace, kind, name, body)
        return self.api.delete(namespace, kind, name)

    def _answer(self, code: int, body: Object, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for key, value in (headers or {}).items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def _watch(self, request: Request, namespace: str, kind: str, query: dict[str, str]) -> None:
        if "sendInitialEvents" in query and not self.api.streams:
            raise Refused(422, "sendInitialEvents is forbidden for watch unless the WatchList feature is enabled")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        until = time.monotonic() + float(query.get("timeoutSeconds", 60))
        for event in self.api.watch(request, namespace, kind, query, until):
            self.api.disturb_reply(request)
            data = json.dumps(event).encode() + b"\n"
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no fault of ours."""


@contextlib.contextmanager
def serving(api: FakeApi) -> Iterator[str]:
    """Serves *api* and yields its URL."""
    handler = type("Handler", (_Handler,), {"api": api})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def kubeconfig(path: pathlib.Path, url: str, *, client: str = "test") -> str:
    """Writes a kubeconfig for *url*; the server tells requests apart by *client*."""
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "fake", "cluster": {"server": url}}],
                "users": [{"name": "fake", "user": {"token": client}}],
                "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake", "namespace": "default"}}],
                "current-context": "fake",
            }
        )
    )
    return str(path)
