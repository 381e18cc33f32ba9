"""Many nodes of one rendezvous on one machine: handlers as torchrun would hold them, in forked processes.

A process holds a few nodes, each in a thread of its own, so that the interpreter lock is not what is measured. torch is
imported once, before the fork: what it takes to load is no backend's doing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import multiprocessing
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from bench.rendezvous import counting
from support import rendezvous_forks

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    from bench.rendezvous import joining

PROCESSES = 64
"""At most so many: each costs some 20 MB of its own."""

START_SECONDS = 120.0
"""Seconds for all processes to be there."""

AHEAD = 0.3
"""Seconds from the order to the start, so that every process has heard of it."""

BEHIND = 10
"""Nice value of the nodes: their server has machines of its own, and here it would get one turn in a hundred."""

TICK = 0.1
"""Seconds between two calls of ``num_nodes_waiting``: torchrun's own default."""


@dataclasses.dataclass(frozen=True)
class Returned:
    """What one node's ``next_rendezvous`` came to."""

    node: int
    at: float
    rank: int = -1
    world: int = 0
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Formed:
    """One round of all nodes."""

    began: float
    nodes: list[Returned]

    @property
    def seconds(self) -> float:
        """Until the last one's return."""
        return max(node.at for node in self.nodes) - self.began

    @property
    def problem(self) -> str:
        """Why this is no round of all nodes; nothing if it is one."""
        failed = [node.problem for node in self.nodes if node.problem]
        if failed:
            return f"{len(failed)} of {len(self.nodes)}: {failed[0]}"
        ranks = sorted(node.rank for node in self.nodes)
        whole = ranks == list(range(len(ranks))) and {node.world for node in self.nodes} == {len(ranks)}
        return "" if whole else f"ranks {ranks} of worlds {sorted({node.world for node in self.nodes})}"


class Crowd:
    """All nodes of one rendezvous."""

    def __init__(self, nodes: int, join: joining.Join, log: pathlib.Path) -> None:
        self._children: list[tuple[rendezvous_forks.Fork, Connection, list[int]]] = []
        self._unheard: list[int] = []
        each = -(-nodes // PROCESSES)
        for first in range(0, nodes, each):
            mine = list(range(first, min(first + each, nodes)))
            ours, theirs = multiprocessing.Pipe()
            fork = rendezvous_forks.Fork(_serve, mine, join, theirs, env=dict(os.environ), log=log)
            theirs.close()
            self._children.append((fork, ours, mine))
        self._ask(("count", None), time.monotonic() + START_SECONDS)

    def form(self, limit: float, *, spread: float = 0.0) -> Formed:
        """All nodes begin at once, or one after the other within *spread* seconds; the last one's beginning counts.

        Who has not returned *limit* seconds after that is a problem.
        """
        first = time.monotonic() + AHEAD
        began, total = first + spread, sum(len(nodes) for _, _, nodes in self._children)
        answers = self._ask(("form", (first, spread / total)), began + limit)
        missing = [Returned(node, began + limit, problem=f"not within {limit:g} s") for node in self._unheard]
        return Formed(began, [*(found for answer in answers for found in answer), *missing])

    def idle(self, seconds: float) -> None:
        """All nodes wait as torchrun does while its workers train."""
        self._ask(("idle", seconds), time.monotonic() + seconds + 60)

    def counted(self) -> counting.Count:
        """What the clients have counted so far."""
        total = counting.Count()
        for count in self._ask(("count", None), time.monotonic() + 60):
            total += count
        return total

    def _ask(self, order: tuple[str, Any], until: float) -> list[Any]:
        for _, pipe, _ in self._children:
            pipe.send(order)
        answers, self._unheard = [], []
        for _, pipe, nodes in self._children:
            if pipe.poll(max(0.0, until - time.monotonic())):
                answers.append(pipe.recv())
            else:
                self._unheard += nodes
        return answers

    def close(self) -> None:
        """All nodes are gone at once."""
        for fork, _, _ in self._children:
            fork.kill()
        for fork, pipe, _ in self._children:
            fork.wait()
            pipe.close()


@contextlib.contextmanager
def gathered(nodes: int, join: joining.Join, log: pathlib.Path) -> Iterator[Crowd]:
    """A crowd that is gone at the end."""
    crowd = Crowd(nodes, join, log)
    try:
        yield crowd
    finally:
        crowd.close()


def _serve(nodes: list[int], join: joining.Join, pipe: Connection) -> None:
    """One process's life: an order, an answer."""
    os.nice(BEHIND)
    logging.basicConfig(level=logging.WARNING, format="%(created).3f %(process)d %(message)s", force=True)
    logging.getLogger("elasticjob_rendezvous").setLevel(logging.WARNING)
    meter, handlers = counting.Meter(), dict[int, Any]()
    while True:
        order, argument = pipe.recv()
        if order == "form":
            found: list[Returned] = []
            _all(nodes, lambda node: found.append(_form(node, join, meter, handlers, argument)))  # noqa: B023 - joined
            pipe.send(found)
        elif order == "idle":
            until = time.monotonic() + argument
            _all(nodes, lambda node: _idle(handlers[node], until))  # noqa: B023 - joined
            pipe.send(None)
        else:
            pipe.send(meter.count)


def _all(nodes: list[int], do: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=do, args=(node,), daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _form(
    node: int, join: joining.Join, meter: counting.Meter, handlers: dict[int, Any], start: tuple[float, float]
) -> Returned:
    first, apart = start
    time.sleep(max(0.0, first + node * apart - time.monotonic()))
    try:
        if node not in handlers:
            handlers[node] = join.make(node, meter)
        info = handlers[node].next_rendezvous()
    except (Exception, SystemExit) as error:
        logging.getLogger(__name__).exception("node %d", node)
        return Returned(node, time.monotonic(), problem=f"{type(error).__name__}: {error}")
    return Returned(node, time.monotonic(), info.rank, info.world_size)


def _idle(handler: Any, until: float) -> None:
    while time.monotonic() < until:
        handler.num_nodes_waiting()
        time.sleep(TICK)
