"""Who this process is and where its peers reach it, found out without any configuration.

The identity is the pod's UID, for names and hosts repeat; the address is an IP, for a pod's own name often does not
resolve. Nothing found here is a secret, and nothing here is a proof: it only tells processes apart.
"""

from __future__ import annotations

import base64
import contextlib
import json
import pathlib
import re
import secrets
import socket
from urllib.parse import urlsplit

_TOKEN = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_UID = re.compile(r"[A-Za-z0-9.-]{1,128}")


def nonce() -> str:
    """A process's nonce: eight hexadecimal digits."""
    return secrets.token_hex(4)


def pod_uid(given: str) -> str:
    """The pod's UID: as *given*, as the ServiceAccount's token says, or else a name for this process alone."""
    found = given or _from_token()
    return found if _UID.fullmatch(found) else f"process-{secrets.token_hex(8)}"


def _from_token() -> str:
    """The token's claims name the pod that it was issued for. They are read, not verified: nothing rests on them."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        claims = _TOKEN.read_text().split(".")[1]
        data = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        return str(data["kubernetes.io"]["pod"]["uid"])
    return ""


def address(given: str, api: str) -> str:
    """The address to advertise: as *given*, or this machine's on the way to the API server. No packet is sent to it.

    Raises:
        ValueError: there is no API server's address to go by.
        OSError: its name does not resolve, or no network leads to it, for now.
    """
    if given:
        return given
    host = urlsplit(api).hostname
    if not host:
        raise ValueError("no address to advertise: give one with --local-addr or --rdzv-conf address=IP")
    family, kind, protocol, _, target = socket.getaddrinfo(host, 443, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0])
