"""TCPStores of a round: bound by every agent before it arrives, joined by every member at the check-in.

torch built without libuv (Debian's) refuses the default; that is found out once and passed on to the workers. With such
a torch, 2.6 at least, workers can't use the agent's store (it ignores ``USE_LIBUV`` there): rank 0's has its own.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import socket
import stat
import time
from typing import TYPE_CHECKING, Any

from elasticjob_rendezvous.round import record

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection

    from torch._C._distributed_c10d import PrefixStore
    from torch._C._distributed_c10d import TCPStore as TCPStore  # noqa: PLC0414 - exported
else:
    from torch.distributed import PrefixStore, TCPStore

ADDRESS = record.STORE_ADDRESS

OPERATION_TIMEOUT = 300.0
"""Seconds: torch's own default, for it is torch's agent that uses the store."""

NOT_SHARED = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
"""Torch's switch, an environment variable: with 1 workers do not meet at an agent's store."""

_TERMINAL = "torchelastic/agent/terminal_state"
"""Prefix of the keys of torch's exit barrier (agent/server/api.py, unchanged from torch 2.0 to 2.15)."""


JOIN_SECONDS = 2.0
"""Seconds for all threads together to come back: several times their longest pause."""

_OPEN_FILES = "/proc/self/fd"

BARRIER_COMPLETE = f"{_TERMINAL}/last_member"
"""Set by the last agent that enters the exit barrier."""


def join_threads(threads: Collection[threading.Thread], ports: Collection[int] = ()) -> None:
    """Waits for threads that use stores at *ports* and were told to stop; in the end those connections end with them.

    A daemon thread that comes back from C++ while the interpreter is shutting down aborts the process: it would end
    with SIGABRT after a success.
    """
    if not _joined(threads):
        cut_off(ports)
        _joined(threads)


def _joined(threads: Collection[threading.Thread]) -> bool:
    until = time.monotonic() + JOIN_SECONDS
    for thread in threads:
        if thread.is_alive():
            thread.join(max(0.0, until - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def cut_off(ports: Collection[int]) -> None:
    """Ends this process's connections to *ports*, and so every operation that waits there for its server's answer.

    Torch knows no way to do it: an operation on a stopped server lasts as long as the server's machine.
    """
    for name in os.listdir(_OPEN_FILES) if os.path.isdir(_OPEN_FILES) else ():  # noqa: PTH112, PTH208 - plain text
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.stat(int(name)).st_mode):  # noqa: PTH116 - of a descriptor
                _shut(os.dup(int(name)), ports)


def _shut(descriptor: int, ports: Collection[int]) -> None:
    with socket.socket(fileno=descriptor) as found:
        if found.family in (socket.AF_INET, socket.AF_INET6) and found.getpeername()[1] in ports:
            found.shutdown(socket.SHUT_RDWR)


def agent_prefix(number: int) -> str:
    """Prefix of the keys of torch's agents in round *number*."""
    return f"elasticjob/{number}/agent"


def bind(address: str) -> TCPStore:
    """A new server on a free port, reachable at *address*."""
    try:
        return _tcp_store(address, 0, is_master=True)
    except (RuntimeError, ValueError) as error:
        if "libuv" not in str(error) or os.environ.get("USE_LIBUV") == "0":
            raise
        os.environ["USE_LIBUV"] = "0"  # inherited by the workers, whose torch is the same
        return _tcp_store(address, 0, is_master=True)


def join(address: str, port: int, *, timeout: float) -> TCPStore:
    """A connection of its own to a server that is there. Operations last *timeout* at most."""
    return _tcp_store(address, port, is_master=False, timeout=timeout)


def _tcp_store(address: str, port: int, *, is_master: bool, timeout: float = OPERATION_TIMEOUT) -> TCPStore:
    return TCPStore(
        address,
        port,
        is_master=is_master,
        timeout=dt.timedelta(seconds=timeout),
        wait_for_workers=False,
        use_libuv=_libuv(),
    )


def _libuv() -> bool:
    return os.environ.get("USE_LIBUV", "1") == "1"


def shared_with_workers() -> bool:
    """Whether this process's workers meet at an agent's store: they can, and torch's own switch does not forbid it.

    Known once a server was bound.
    """
    return _libuv() and os.environ.get(NOT_SHARED, "0") != "1"


def port_for_workers(store: str) -> int:
    """The port of this process's *store*, or a free one where its workers need another store than that."""
    address, port = split(store)
    if shared_with_workers():
        return port
    # On all addresses, as torch's own store: the one that others reach may be no interface's here.
    with socket.create_server(("", 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as free:
        return int(free.getsockname()[1])


def prefixed(prefix: str, store: Any) -> Any:
    """*store* with keys of its own."""
    return PrefixStore(prefix, store)


def joined(address: str, port: int) -> str:
    """*address* and *port* as they are recorded: ``[v6]:port`` for IPv6."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def split(store: str) -> tuple[str, int]:
    """The address and port that :func:`joined` put together."""
    address, _, port = store.rpartition(":")
    return address.strip("[]"), int(port)


def line(error: Exception) -> str:
    """What a store's error says, without the C++ stack that torch puts under it."""
    return str(error).partition("\n")[0][:200]


class AgentStore(PrefixStore):
    """The store that torch's agent gets: tells when the agent enters and waits in its exit barrier.

    It is the only sign that a handler gets of workers that have ended well: in the barrier, which lasts up to 300 s, no
    method of the handler is called.
    """

    def __init__(
        self, number: int, store: Any, *, on_finish: Callable[[], None], in_barrier: Callable[[], None]
    ) -> None:
        super().__init__(agent_prefix(number), store)
        self._on_finish, self._in_barrier = on_finish, in_barrier

    def add(self, key: str, amount: int) -> int:
        if key.startswith(_TERMINAL):
            self._on_finish()
        return int(super().add(key, amount))

    def wait(self, keys: list[str], *timeout: Any) -> None:
        if keys == [BARRIER_COMPLETE]:
            self._in_barrier()
        else:
            super().wait(keys, *timeout)
