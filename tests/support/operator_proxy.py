"""A way to the API server on which the operator can be killed just before, or just after, its n-th write, and on which
whatever else goes wrong that ``operator_faults`` knows.
"""

import base64
import contextlib
import json
import pathlib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping

import aiohttp
import yaml
from aiohttp import web

from support.operator_faults import JOBS, Asked, Fault, asked

HOP = {"host", "connection", "transfer-encoding", "content-length", "content-encoding"}


NONE = Fault()


class Proxy:
    """Passes requests on. Writes are counted: all but the election's and events, which nothing depends on."""

    def __init__(self, server: str, tls: ssl.SSLContext) -> None:
        self._server = server
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        self.writes: list[str] = []
        self.before: Callable[[int], bool] = lambda count: False
        self.after: Callable[[int], bool] = lambda count: False
        self.faults: Mapping[str, Fault] = {}
        """By namespace."""

    @classmethod
    def to(cls, kubeconfig: pathlib.Path) -> "Proxy":
        """A way to the API server of a kubeconfig."""
        found = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
        data = found.get("certificate-authority-data")
        authority = base64.b64decode(data).decode() if data else None
        return cls(
            found["server"], ssl.create_default_context(cadata=authority, cafile=found.get("certificate-authority"))
        )

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve; the URL."""
        app = web.Application(client_max_size=4 << 20)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._tls, limit=0))
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            await runner.cleanup()
            await self._session.close()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        counted = (
            request.method != "GET" and "/events" not in request.path and "elasticjob-operator" not in request.path
        )
        counted = counted and not (request.method == "POST" and "/namespaces/elasticjob-system/" in request.path)
        if counted:
            self.writes.append(f"{request.method} {request.path}")
            if self.before(len(self.writes)):
                raise web.HTTPServiceUnavailable
        count = len(self.writes)
        what = asked(request.method, request.path, request.query)
        response = await self._faulty(request, what, self.faults.get(what.namespace, NONE))
        if counted and self.after(count):
            raise web.HTTPServiceUnavailable
        return response

    async def _faulty(self, request: web.Request, what: Asked, fault: Fault) -> web.StreamResponse:
        if instead := await fault.answer(what):
            return web.json_response(instead.body, status=instead.status, headers=instead.headers)
        async with self._asked(request) as answer:
            if what.watch and answer.ok:
                spared = fault.silences and what.plural == JOBS
                return await self._watch(request, answer, what, NONE if spared else fault)
            body = await answer.read()
        if fault.cuts(what):
            if request.transport:
                request.transport.abort()
            return web.Response()  # which nobody gets
        body = fault.reply(what, request.path_qs, body)
        return web.Response(body=body, status=answer.status, headers=_headers(answer.headers))

    @contextlib.asynccontextmanager
    async def _asked(self, request: web.Request) -> AsyncIterator[aiohttp.ClientResponse]:
        assert self._session is not None
        async with self._session.request(
            request.method,
            self._server + request.path_qs,
            headers=_headers(request.headers),
            data=await request.read() or None,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            yield answer

    async def _watch(
        self, request: web.Request, answer: aiohttp.ClientResponse, what: Asked, fault: Fault
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=_headers(answer.headers))
        rest, number = b"", 0
        with contextlib.suppress(ConnectionError, aiohttp.ClientError, EOFError):  # either end may go at any time
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = await fault.event(what, number, json.loads(line))
                    number += 1
                    if event is not None:
                        await response.write(json.dumps(event).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await response.write_eof()
        return response


def _headers(found: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in found.items() if key.lower() not in HOP}
