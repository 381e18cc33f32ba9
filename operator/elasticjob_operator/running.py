"""Putting the parts together and keeping them running: if one of them ends, all do."""

import asyncio
import logging
import secrets
import signal
import socket
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, cast

import kopf

from elasticjob_operator import handlers
from elasticjob_operator.api import names
from elasticjob_operator.api.settings import Settings
from elasticjob_operator.kube import autoscaling, errors, serving
from elasticjob_operator.kube import client as clients
from elasticjob_operator.kube.applying import Applier
from elasticjob_operator.kube.electing import Elector
from elasticjob_operator.kube.metrics import Metrics
from elasticjob_operator.kube.noticing import Notice
from elasticjob_operator.kube.pacing import Pace
from elasticjob_operator.kube.queue import Queue
from elasticjob_operator.kube.reading import Reader
from elasticjob_operator.kube.reconciling import Reconciler, relist
from elasticjob_operator.kube.watchdog import CLUSTER_NODES, WATCHES, Watchdog

STOP_SECONDS = 3.0
"""For an orderly end; after it the process goes all the same, as kopf can hang on its streams."""

CRD_SECONDS = 5.0
"""Between two looks whether the API knows ElasticJobs."""

logger = logging.getLogger(__name__)


class StartError(Exception):
    """The operator can't start; one line that says what to do."""


async def run(settings: Settings) -> int:
    """Run until told to stop, or until something has ended that must not."""
    _log(settings)
    try:
        client = await clients.connect()
    except clients.ConfigurationError as error:
        raise StartError(str(error)) from error
    identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
    elector = Elector(client, namespace=settings.namespace, identity=identity) if settings.elect else None
    try:
        return await _serve(settings, client, elector, identity)
    finally:
        if elector is not None and elector.leads:
            await elector.release()
        await client.close()


async def _serve(settings: Settings, client: clients.Client, elector: Elector | None, identity: str) -> int:
    queue = Queue()
    notice = Notice(queue)
    sees_election = not settings.watched or settings.namespace in settings.watched
    kinds = (*WATCHES, CLUSTER_NODES) if settings.watch_nodes else WATCHES
    watchdog = Watchdog(notice, elector if sees_election else None, kinds)
    stop = asyncio.Event()
    _listen(stop)
    metrics = Metrics()
    await _health(settings, watchdog, elector, metrics)
    if await _first_of({"the signal": stop.wait(), "the start": _start(client, elector)}) == "the signal":
        return 0
    autoscaler = autoscaling.made(client, queue, settings, metrics) if settings.autoscaler.mode != "off" else None
    allocate = autoscaler.allocation if autoscaler else None
    reader = Reader(client, settings.installation, notice.cluster_nodes, allocate)
    applier = Applier(client, Pace(settings.pods_per_second))
    reconciler = Reconciler(client, queue, reader, applier, instance=identity, metrics=metrics)
    started = asyncio.Event()
    parts: dict[str, Coroutine[Any, Any, Any]] = {
        "the signal": _told(stop, started),
        "the watches": kopf.operator(
            registry=handlers.registry(notice, cluster_nodes=settings.watch_nodes),
            settings=handlers.settings(),
            standalone=True,
            identity=cast("Any", identity),  # else kopf asks for the name of a user that the image does not have
            clusterwide=not settings.watched,
            namespaces=settings.watched,
            ready_flag=started,
        ),
        "the watchdog": watchdog.watch(),
        "the relist": relist(client, queue, notice, settings.watched, settings.relist_seconds),
        **{f"worker {n}": reconciler.work() for n in range(settings.workers)},
    }
    if elector is not None:
        parts["the election"] = elector.keep()
    if autoscaler is not None:
        parts["the autoscaler"] = autoscaler.run()
    ended = await _first_of(parts)
    told = ended in ("the signal", "the watches")  # kopf ends in order only if it was told to, before it had started
    if not told:
        logger.critical("%s ended, so this process does", ended)
    return 0 if told else 1


def _listen(stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _told(stop: asyncio.Event, started: asyncio.Event) -> None:
    """Returns when the process is told to stop. kopf takes the signals for itself when it starts; they are ours."""
    await started.wait()
    _listen(stop)
    await stop.wait()


async def _first_of(parts: dict[str, Coroutine[Any, Any, Any]]) -> str:
    """Run all until one ends; its name. The others are cancelled, and given a moment for it."""
    tasks = {asyncio.create_task(part, name=name): name for name, part in parts.items()}
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    _, stuck = await asyncio.wait(rest, timeout=STOP_SECONDS) if rest else ((), ())
    if stuck:
        logger.warning("not stopped in time: %s", ", ".join(sorted(task.get_name() for task in stuck)))
    for task in done:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s: %r", tasks[task], error)
            return f"the failure of {tasks[task]}"
    return tasks[next(iter(done))]


async def _start(client: clients.Client, elector: Elector | None) -> None:
    """Wait for the API to know ElasticJobs, and for our turn."""
    while True:
        try:
            await client.request("GET", f"/apis/{names.API_VERSION}")
            break
        except errors.ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:  # in no words of its own: to the API server this is only a path
                logger.warning("the API server knows no %s in %s: install the CRD", names.PLURAL, names.API_VERSION)
            else:
                logger.warning("waiting for the API server: %s", error)
        await asyncio.sleep(CRD_SECONDS)
    if elector is not None:
        await elector.acquire()


async def _health(settings: Settings, watchdog: Watchdog, elector: Elector | None, metrics: Metrics) -> None:
    def ready() -> str:
        waits = elector is not None and not elector.leads  # a stand-by is ready to take over
        lost = () if waits else watchdog.missing()
        return watchdog.trouble() or (f"not watching {', '.join(lost)} yet" if lost else "")

    if settings.health_port:
        try:
            await serving.serve(settings.health_port, healthy=watchdog.trouble, ready=ready, metrics=metrics.text)
        except OSError as error:
            raise StartError(f"--health-port {settings.health_port}: {error.strerror or error}") from error


def _log(settings: Settings) -> None:
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for noisy in ("kopf", "aiohttp", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
