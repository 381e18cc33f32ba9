"""Ports of this machine that nobody listens at."""

from __future__ import annotations

import contextlib
import secrets
import socket

OURS = range(20_000, 30_000)
"""Not the kernel's own (from 32768 on): those it gives to anybody, before whoever asked here has bound his."""


def free() -> int:
    """A port that is free now."""
    while True:
        port = secrets.choice(OURS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
