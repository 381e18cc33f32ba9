"""The audit log of a local cluster, while its API server may still be writing it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator, Mapping


def entries(audit_log: pathlib.Path) -> Iterator[dict[str, Any]]:
    """All that are whole: the last line may be half there."""
    with audit_log.open("rb") as lines:
        yield from (json.loads(line) for line in lines if line.endswith(b"\n"))


def user(entry: Mapping[str, Any]) -> str:
    """Who asked; empty where that was not found out, as with a token that is no longer good."""
    return str(entry.get("user", {}).get("username", ""))


def code(entry: Mapping[str, Any]) -> int:
    """The HTTP status that was answered; 0 where none is told, as of a request that was cut off."""
    return int(entry.get("responseStatus", {}).get("code", 0))
