"""Torchrun as it is, with a line for each thing that its agent does: stopping its workers, meeting, starting them."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import time
from typing import TYPE_CHECKING, Any

from support import rendezvous_forks

if TYPE_CHECKING:
    from collections.abc import Callable


def torchrun(lines: str, *arguments: str) -> None:
    """Runs torchrun; *lines* is the file."""
    from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent  # noqa: PLC0415 - seconds

    for method, name in (("_stop_workers", "stop"), ("_rendezvous", "form"), ("_start_workers", "start")):
        setattr(LocalElasticAgent, method, _told(getattr(LocalElasticAgent, method), name, pathlib.Path(lines)))
    rendezvous_forks.torchrun(*arguments)


def _told(call: Callable[..., Any], name: str, lines: pathlib.Path) -> Callable[..., Any]:
    @functools.wraps(call)
    def told(*args: Any, **kwargs: Any) -> Any:
        _tell(lines, name)
        found = call(*args, **kwargs)
        _tell(lines, f"{name} done")
        return found

    return told


def _tell(lines: pathlib.Path, what: str) -> None:
    with lines.open("a") as file:
        told = {"node": os.environ["BENCH_NODE"], "agent": os.getpid(), "what": what, "at": time.monotonic()}
        file.write(json.dumps(told) + "\n")
