"""The rendezvous backends ``kubernetes`` and ``kubernetes-dynamic`` for torchrun.

Every torchrun imports this module, whatever its backend: importing it must load neither the API client nor torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousParameters


def get_handler() -> Callable[[RendezvousParameters], RendezvousHandler]:
    """The target of the entry point ``torchrun.handlers``: what creates a handler from torchrun's parameters."""
    return _create


def _create(parameters: RendezvousParameters) -> RendezvousHandler:
    from elasticjob_rendezvous.handler import create  # noqa: PLC0415 - torch and the client load only when it is used

    return create(parameters)


def get_dynamic_handler() -> Callable[[RendezvousParameters], RendezvousHandler]:
    """The same for ``kubernetes-dynamic``: torch's own dynamic handler, its state in a ConfigMap."""
    return _create_dynamic


def _create_dynamic(parameters: RendezvousParameters) -> RendezvousHandler:
    from elasticjob_rendezvous.backend import create  # noqa: PLC0415 - as above

    return create(parameters)
