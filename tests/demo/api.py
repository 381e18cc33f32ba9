"""Reads from the API server as plain JSON: objects look as in ``kubectl get -o json``. Writes nothing."""

from __future__ import annotations

import json
import urllib.parse
from typing import TYPE_CHECKING, Any

import urllib3
from kubernetes import config

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

Object = dict[str, Any]

WATCH_SECONDS = 300
"""A watch ends by itself after this, so that one whose connection died unnoticed isn't waited on for ever."""


FAULTS = (urllib3.exceptions.HTTPError, OSError, json.JSONDecodeError)
"""What a connection to an API server that is going away can raise."""


class UnreachableError(Exception):
    """No answer, or none that can be used: the server is away, a version is too old, a kind is not there (yet)."""


class Api:
    """Plain JSON over the client library's connection: objects look as in ``kubectl get -o json``."""

    def __init__(self, kubeconfig: pathlib.Path) -> None:
        self._client = config.new_client_from_config(str(kubeconfig), persist_config=False)  # type: ignore[no-untyped-call]

    def get(self, path: str) -> Object:
        try:
            found: Object = json.loads(self._open(path).data)
        except FAULTS as error:
            raise UnreachableError(f"GET {path}: {error}") from error
        return found

    def events(self, path: str, *, resource_version: str, opened: Callable[[Any], None]) -> Iterator[Object]:
        """The events of a watch; *opened* gets the response, so that another thread can end it."""
        query = {"watch": "1", "resourceVersion": resource_version, "timeoutSeconds": str(WATCH_SECONDS)}
        try:
            response = self._open(f"{path}?{urllib.parse.urlencode(query)}")
            opened(response)
            rest = b""
            for chunk in response.stream(amt=None):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from map(json.loads, lines)
        except FAULTS as error:
            raise UnreachableError(f"watch {path}: {error}") from error

    def _open(self, path: str) -> urllib3.BaseHTTPResponse:
        headers: dict[str, str] = {"Accept": "application/json"}
        self._client.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
        url = self._client.configuration.host + path
        response: urllib3.BaseHTTPResponse = self._client.rest_client.request("GET", url, headers).response
        if response.status != 200:
            raise UnreachableError(f"{response.status}: {response.data.decode(errors='replace')[:500]}")
        return response
