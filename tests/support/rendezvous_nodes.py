"""Nodes without workers: each a process with one handler, told step by step what torch's agent would call.

``call`` runs one of the functions below in the node's main thread. What a method raises comes back as :class:`Raised`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import multiprocessing
import os
import signal
import uuid
from typing import TYPE_CHECKING, Any

from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Reason
from support import rendezvous_forks
from support.rendezvous_jobs import PATIENCE, until

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterable
    from multiprocessing.connection import Connection

    from support.rendezvous_jobs import Job

TIMERS = {"last_call_timeout": "1", "beat_interval": "0.2", "silence": "60", "check_in": "60", "renew_interval": "1"}
"""Nobody is taken for dead because the machine is busy: who was killed is found out by its closed connections."""


class Raised(Exception):  # noqa: N818 - what a node's method raised, by its class's name
    """What a method raised, in the node."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


@dataclasses.dataclass(frozen=True)
class World:
    """What ``next_rendezvous`` returned."""

    number: int
    rank: int
    size: int
    address: str
    port: int


class Node:
    """One node, from outside."""

    def __init__(self, process: rendezvous_forks.Fork, pipe: Connection, log: pathlib.Path) -> None:
        self.process, self.log, self._pipe = process, log, pipe

    def begin(self, function: Callable[..., Any], *args: Any) -> None:
        """Calls, without waiting for what comes of it."""
        self._pipe.send((function, args))

    def result(self, patience: float = PATIENCE) -> Any:
        """What came of the last call."""
        if not self._pipe.poll(patience):
            raise AssertionError(f"no answer within {patience:g} s: {self.log}\n{self.text()[-2000:]}")
        try:
            kind, value = self._pipe.recv()
        except EOFError:
            raise AssertionError(f"the node is gone: {self.log}\n{self.text()[-2000:]}") from None
        if kind == "raised":
            raise Raised(*value)
        return value

    def answered(self, within: float = 0.0) -> bool:
        """Whether the last call is over."""
        return self._pipe.poll(within)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        self.begin(function, *args)
        return self.result()

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait(PATIENCE)


class Nodes:
    """Starts nodes of one job and leaves none behind."""

    def __init__(self, job: Job, folder: pathlib.Path) -> None:
        self.job, self._folder = job, folder
        self._all: list[Node] = []

    def start(
        self,
        slot: int | None = None,
        *,
        nnodes: str = "1:4",
        planned: bool = True,
        pod: str | None = None,
        address: str | None = "127.0.0.1",
        prepare: Callable[[], None] | None = None,
        endpoint: str | None = None,
        run_id: str | None = None,
        kubeconfig: str = "",
        **conf: str,
    ) -> Node:
        """A node for *slot* (standalone: with that index, or for any slot). *prepare* runs in it, first of all."""
        low, high = map(int, nnodes.split(":"))
        env = {k: v for k, v in os.environ.items() if not k.startswith("ELASTICJOB")}
        env["ELASTICJOB_POD_UID"] = f"pod-{uuid.uuid4()}" if pod is None else pod
        if slot is not None:
            env["ELASTICJOB_SLOT" if planned else "JOB_COMPLETION_INDEX"] = str(slot)
        parameters = {
            "endpoint": self.job.name if endpoint is None else endpoint,
            "run_id": run_id or self.job.uid,
            "min_nodes": low,
            "max_nodes": high,
            "local_addr": address,
            "kubeconfig": kubeconfig or self.job.kubeconfig,
            **TIMERS,
            **conf,
        }
        log = self._folder / f"node-{len(self._all)}.log"
        ours, theirs = multiprocessing.Pipe()
        node = Node(rendezvous_forks.Fork(_serve, theirs, prepare, parameters, env=env, log=log), ours, log)
        theirs.close()
        self._all.append(node)
        return node

    def several(self, slots: Iterable[int | None], **options: Any) -> list[Node]:
        return [self.start(slot, **options) for slot in slots]

    def close(self) -> None:
        for node in self._all:
            if node.process.poll() is None:
                node.kill()


def meet(*nodes: Node) -> list[World]:
    """All of *nodes* go into the next rendezvous; what they return is one world, whose store they share."""
    for node in nodes:
        node.begin(rendezvous)
    return met(*nodes)


def met(*nodes: Node) -> list[World]:
    """The world of *nodes*, who are in the rendezvous already."""
    worlds: list[World] = [node.result() for node in nodes]
    first = worlds[0]
    assert {(w.number, w.size, w.address, w.port) for w in worlds} == {
        (first.number, len(nodes), first.address, first.port)
    }, worlds
    assert sorted(w.rank for w in worlds) == list(range(len(nodes)))
    for node in nodes:
        node.begin(barrier)
    for node in nodes:
        node.result()
    return worlds


def again(job: Job, *nodes: Node) -> list[World]:
    """The operator opens the next round, and all of *nodes* come to it."""
    job.change(lambda r: changing.opened(r, Reason.RESIZED))
    called(*nodes)
    return meet(*nodes)


def called(*nodes: Node, patience: float = PATIENCE) -> None:
    """Waits until each of *nodes* is asked to come back."""
    for node in nodes:
        until(lambda node=node: node.call(waiting) > 0, f"{node.log}: called back", patience)  # type: ignore[misc]


# What a node does


class _Here:
    """What a node's process has."""

    handler: Any = None
    info: Any = None


def _serve(pipe: Connection, prepare: Callable[[], None] | None, parameters: dict[str, Any]) -> None:
    """A node's main thread."""
    if prepare is not None:
        prepare()
    _Here.handler = _Here.info = None
    try:
        _create(parameters)
    except Exception as error:  # noqa: BLE001 - whatever it is, the test is told with its first call
        pipe.recv()
        pipe.send(("raised", (type(error).__name__, str(error))))
        return
    with contextlib.suppress(EOFError):
        while True:
            function, args = pipe.recv()
            try:
                answer = ("returned", function(*args))
            except SystemExit as error:
                pipe.send(("raised", ("SystemExit", str(error.code))))
                raise
            except BaseException as error:  # noqa: BLE001 - as above
                answer = ("raised", (type(error).__name__, str(error)))
            pipe.send(answer)


def _create(parameters: dict[str, Any]) -> None:
    from torch.distributed.elastic.rendezvous import RendezvousParameters  # noqa: PLC0415 - only in a node

    from elasticjob_rendezvous import handler  # noqa: PLC0415

    _Here.handler = handler.create(RendezvousParameters("kubernetes", **parameters))


def rendezvous() -> World:
    """``next_rendezvous``."""
    info = _Here.info = _Here.handler.next_rendezvous()
    place, where = _Here.handler._session.round.place, info.bootstrap_store_info
    assert (place.rank, place.size) == (info.rank, info.world_size)
    return World(place.number, info.rank, info.world_size, where.master_addr, where.master_port)


def barrier() -> None:
    """All members meet at the store that torch's agent gets."""
    info = _Here.info
    if info.store.add("test/here", 1) == info.world_size:
        info.store.set("test/all", "")
    info.store.wait(["test/all"], dt.timedelta(seconds=20))


def waiting() -> int:
    """``num_nodes_waiting``."""
    found: int = _Here.handler.num_nodes_waiting()
    return found


def unused() -> bool:
    """Whether no worker has ever been at the store that workers meet at."""
    return not _workers_store().check(["worker"])


def use() -> None:
    """Leaves something at the store that workers meet at."""
    _workers_store().set("worker", "")


def _workers_store() -> Any:
    from elasticjob_rendezvous import stores  # noqa: PLC0415 - only in a node

    where = _Here.info.bootstrap_store_info
    return stores.join(where.master_addr, where.master_port, timeout=30)


def closed() -> bool:
    """``is_closed``."""
    found: bool = _Here.handler.is_closed()
    return found


def finish() -> None:
    """What torch's agent does when its workers have ended well, until it has ended itself."""
    store = _Here.info.store
    prefix = "torchelastic/agent/terminal_state"
    if store.add(f"{prefix}/num_members", 1) == _Here.info.world_size:
        store.set(f"{prefix}/last_member", "<val_ignored>")
    store.wait([f"{prefix}/last_member"], dt.timedelta(seconds=300))
    _Here.handler.shutdown()


def fail() -> None:
    """What torch's agent does when its workers have failed for good."""
    with contextlib.suppress(ZeroDivisionError):
        try:
            _ = 1 // 0  # an error on its way out, as torchrun's own
        finally:
            _Here.handler.shutdown()
