"""A way to the API server on which the operator can be killed just before, or just after, its n-th write."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Callable

import aiohttp
from aiohttp import web

HOP = {"host", "connection", "transfer-encoding", "content-length", "content-encoding"}


class Proxy:
    """Passes requests on. Writes are counted: all but the election's and events, which nothing depends on."""

    def __init__(self, server: str, tls: ssl.SSLContext) -> None:
        self._server = server
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        self.writes: list[str] = []
        self.before: Callable[[int], bool] = lambda count: False
        self.after: Callable[[int], bool] = lambda count: False

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
            await self._session.close()
            await runner.cleanup()

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
        response = await self._forward(request)
        if counted and self.after(count):
            raise web.HTTPServiceUnavailable
        return response

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP}
        async with self._session.request(
            request.method,
            self._server + request.path_qs,
            headers=headers,
            data=await request.read() or None,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            response = web.StreamResponse(status=answer.status)
            for key, value in answer.headers.items():
                if key.lower() not in HOP:
                    response.headers[key] = value
            await response.prepare(request)
            with contextlib.suppress(ConnectionError, aiohttp.ClientError):
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
            return response
