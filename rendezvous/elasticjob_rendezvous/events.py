"""What happens to a rendezvous, told through torch's own channels: its event log and its metrics.

Both are silent unless somebody has set them up, as for torch's own backends: events need a handler for
``dynamic_rendezvous`` in ``torch.distributed.elastic.events.handlers``, metrics one from ``metrics.configure``.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from torch.distributed.elastic.events import construct_and_record_rdzv_event
from torch.distributed.elastic.events.api import NodeState
from torch.distributed.elastic.metrics.api import put_metric

if TYPE_CHECKING:
    from elasticjob_rendezvous.session import Session

logger = logging.getLogger("elasticjob_rendezvous")

GROUP = "elasticjob_rendezvous"
"""The metrics' group."""


def tell(session: Session, name: str, message: str, state: NodeState = NodeState.RUNNING) -> None:
    """Records an event of this process, with its place in the round if it has one."""
    place = session.round.place if session.round else None
    construct_and_record_rdzv_event(
        name=f"KubernetesRendezvousHandler.{name}",
        run_id=session.config.run_id,
        message=message,
        node_state=state,
        hostname=session.config.address or session.pod,
        pid=os.getpid(),
        master_endpoint=place.record.store if place else "",
        local_id=session.seat.slot if session.seat else None,
        rank=place.rank if place else None,
    )


def failed(run_id: str, name: str) -> None:
    """Records the exception that is on its way out."""
    error = sys.exc_info()[1]
    construct_and_record_rdzv_event(
        name=f"KubernetesRendezvousHandler.{name}",
        run_id=run_id,
        message=f"{type(error).__name__}: {error}",
        node_state=NodeState.FAILED,
    )


def refused(what: str, why: str) -> None:
    """Something in the API is not believed: logged with its reason, and counted as ``refused.<what>``."""
    logger.error("refused: %s", why)
    put_metric(f"refused.{what}", 1, GROUP)
