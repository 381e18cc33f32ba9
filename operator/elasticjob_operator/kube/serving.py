"""``/healthz`` and ``/readyz``: whether the operator still sees the cluster, not merely whether its loop turns; and
``/metrics`` for Prometheus.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web


async def serve(
    port: int, *, healthy: Callable[[], str], ready: Callable[[], str], metrics: Callable[[], str]
) -> web.AppRunner:
    """Answer on *port*; each question is answered by an empty text (yes) or the reason why not.

    Raises:
        OSError: the port can't be had.
    """
    app = web.Application()
    app.router.add_get("/healthz", _answer(healthy))
    app.router.add_get("/readyz", _answer(ready))
    app.router.add_get("/metrics", _page(metrics))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    return runner


def _page(content: Callable[[], str]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=content(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    return answer


def _answer(question: Callable[[], str]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        trouble = question()
        return web.Response(text=f"{trouble or 'ok'}\n", status=503 if trouble else 200)

    return answer
