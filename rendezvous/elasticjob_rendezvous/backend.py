"""torch's ``RendezvousBackend`` on a ConfigMap: the state of torch's own dynamic handler, ``kubernetes-dynamic``.

The state is opaque bytes here, and is a pickle to torch: every agent of the run unpickles it, so whoever may write the
ConfigMap may run code in all of its pods. Grant that right to nobody but these pods (``docs/backends.md``).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
from typing import TYPE_CHECKING, Any

from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousHandler, RendezvousStateError
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousBackend, create_handler

from elasticjob_rendezvous import identity, kube, roundstores, settings, stores
from elasticjob_rendezvous.texts import Texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.distributed.elastic.rendezvous import RendezvousParameters

BACKEND = "kubernetes-dynamic"

MAX_STATE = 256 * 1024
"""Bytes of one state: torch's has 70 a node, and a ConfigMap may have 1 MiB in base64, other runs' states with it."""

PATIENCE = 60
"""Seconds that an API server may be silent, as long as torch's other backends wait for their stores."""

_STATE = "torch.rendezvous."
_RUN_ID = re.compile(r"[-._a-zA-Z0-9]{1,128}")
"""What a key of a ConfigMap may consist of."""


class KubernetesRendezvousBackend(RendezvousBackend):
    """The state of one run, as base64 under a key of its own; its token is the ConfigMap's ``resourceVersion``."""

    def __init__(self, texts: Texts, run_id: str) -> None:
        if not _RUN_ID.fullmatch(run_id):
            raise ValueError(f"--rdzv-id {run_id!r}: wanted are up to 128 letters, digits, dots, dashes, underscores")
        self._texts, self._key = texts, _STATE + run_id

    @property
    def name(self) -> str:
        return BACKEND

    def get_state(self) -> tuple[bytes, Any] | None:
        with _translated():
            return self._found(self._texts.read())

    def set_state(self, state: bytes, token: Any = None) -> tuple[bytes, Any, bool] | None:
        if len(state) > MAX_STATE:
            raise RendezvousStateError(f"a rendezvous state of {len(state)} bytes, more than {MAX_STATE}")
        with _translated():
            data = self._texts.data if token and token == self._texts.version else self._texts.read()
            while self._may_write(data, token):
                if self._texts.write({**_without_earlier(data, self._key), self._key: _encoded(state)}):
                    return state, self._texts.version, True
                data = self._texts.read()
            found = self._found(data)
        return (*found, False) if found else None

    def _may_write(self, data: dict[str, str], token: Any) -> bool:
        return bool(token == self._texts.version) if token else self._key not in data

    def _found(self, data: dict[str, str]) -> tuple[bytes, Any] | None:
        text = data.get(self._key)
        return None if text is None else (_decoded(text), self._texts.version)


def create(parameters: RendezvousParameters) -> RendezvousHandler:
    """torch's own dynamic handler for torchrun's *parameters*, with its state and its stores' addresses in a ConfigMap.

    Raises:
        ValueError: a parameter is malformed.
        RendezvousConnectionError: there is no way to an API server.
    """
    if parameters.run_id in settings.UNSET_RUN_ID:
        raise ValueError(settings.NO_RUN_ID)
    namespace, name = settings.parse_endpoint(parameters.endpoint)
    patience = parameters.get_as_int("read_timeout", PATIENCE) or PATIENCE
    with _translated():
        api = kube.Kube(
            kubeconfig=parameters.get("kubeconfig", ""), context=parameters.get("context", ""), namespace=namespace
        )
    # Else torch takes the host's name, which in a pod nobody can look up.
    try:
        given = parameters.local_addr or os.environ.get(settings.POD_IP_ENV) or ""
        parameters.local_addr = identity.address(given, api.host)
    except OSError as error:
        raise RendezvousConnectionError(f"the way to {api.host} is not known: {error}") from error
    texts = [Texts(api, f"{name}-dynamic", patience=patience) for _ in range(2)]  # each with what it has read itself
    backend = KubernetesRendezvousBackend(texts[0], parameters.run_id)
    store = roundstores.RoundStores(texts[1], run_id=parameters.run_id, address=parameters.local_addr)
    # With one store for agents and workers torch loses every job that grows (docs/backends.md); who wants it says so.
    os.environ.setdefault(stores.NOT_SHARED, "1")
    return create_handler(store, backend, parameters)


def _encoded(state: bytes) -> str:
    return base64.b64encode(state).decode()


def _decoded(text: str) -> bytes:
    if len(text) > 2 * MAX_STATE:
        raise RendezvousStateError(f"the rendezvous state has {len(text)} characters; more than {MAX_STATE} bytes")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RendezvousStateError(f"the rendezvous state is not base64: {error}") from error


def _without_earlier(data: dict[str, str], key: str) -> dict[str, str]:
    """The texts less the states of earlier runs of the same job: of ``ID.3`` when ``ID.4`` writes, say."""
    series, _, number = key.rpartition(".")
    if not number.isdecimal():
        return data
    return {k: v for k, v in data.items() if not _is_earlier(k, series, int(number))}


def _is_earlier(key: str, series: str, number: int) -> bool:
    own, _, text = key.rpartition(".")
    return own == series and text.isdecimal() and int(text) < number


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except kube.KubeError as error:
        raise RendezvousConnectionError(str(error)) from error
