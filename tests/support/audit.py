"""The audit log of a local cluster, while its API server may still be writing it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator, Mapping


def entries(audit_log: pathlib.Path, *, naming: str = "") -> Iterator[dict[str, Any]]:
    """All that are whole, for the last line may be half there; only those with the text *naming* in them are parsed."""
    with audit_log.open("rb") as lines:
        whole = (line for line in lines if line.endswith(b"\n") and naming.encode() in line)
        yield from map(json.loads, whole)


def user(entry: Mapping[str, Any]) -> str:
    """Who asked; empty where that was not found out, as with a token that is no longer good."""
    return str(entry.get("user", {}).get("username", ""))


def code(entry: Mapping[str, Any]) -> int:
    """The HTTP status that was answered; 0 where none is told, as of a request that was cut off."""
    return int(entry.get("responseStatus", {}).get("code", 0))


def unauthorized(entry: Mapping[str, Any]) -> bool:
    """Whether the asker had no right to it. What admission refuses, as in a namespace that goes, is a 403 as well."""
    return code(entry) == 403 and entry.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
