"""torchrun and other processes that need torch, forked from one that has loaded it already: see `forks`."""

from __future__ import annotations

import ctypes
from typing import Any

from support import forks

forks.preload(
    "torch.distributed.run",
    "torch.distributed.elastic.agent.server.api",
    "kubernetes",
    "elasticjob_rendezvous.handler",
)


class Fork(forks.Fork):
    """A process that has torch."""

    def __init__(self, target: Any, *args: Any, **settings: Any) -> None:
        super().__init__(_without_name_server, target, *args, **settings)


def _without_name_server(target: Any, *args: Any) -> None:
    ask_no_name_server()
    target(*args)


def ask_no_name_server() -> None:
    """From now on this process knows names from files alone, as far as its C library lets itself be told.

    A TCPStore asks for the name of everybody who connects, and answers nobody while it waits for a name server.
    """
    configure = getattr(ctypes.CDLL(None), "__nss_configure_lookup", None)
    if configure is not None:
        configure(b"hosts", b"files")


def torchrun(*arguments: str) -> None:
    """What the command ``torchrun`` does."""
    from torch.distributed import run  # noqa: PLC0415 - loaded already, in the process that was forked

    run.main(list(arguments))
