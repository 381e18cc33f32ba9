"""Which slot a process takes. With an operator it is given; standalone it is one's index, or one that nobody has."""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING

from torch.distributed.elastic.rendezvous import RendezvousStateError

from elasticjob_rendezvous import links, stores
from elasticjob_rendezvous.round import slots

if TYPE_CHECKING:
    from collections.abc import Collection

    from elasticjob_rendezvous.session import Session

logger = logging.getLogger("elasticjob_rendezvous")

WIDTH = 8
"""How many of the free slots the first choice is made among; each one that was lost to another makes it eight times as
many. A few nodes get the first slots, and a thousand that start at once do not fight for the same one."""


class Seating:
    """The choice of one process, for as long as it has no slot."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._width = WIDTH

    def chosen(self) -> bool:
        """Whether there is a slot to be taken, or taken already."""
        session = self._session
        if session.config.planned or (session.seat and (session.seat.held or self._still_free())):
            return True
        session.look(wanted=True)
        leases = session.leases()
        if leases is None:
            return False
        if session.seat is not None and session.seat.slot == session.config.slot:
            logger.warning("slot %d, this process's index, is another pod's: takes a free one", session.seat.slot)
        taken = {slot for slot, seen in leases.items() if not seen.dead and seen.lease.pod != session.pod}
        session.sit(random.choice(choices(taken, session.config.high)[: self._width]))  # noqa: S311 - no secret
        self._width *= WIDTH
        return True

    def _still_free(self) -> bool:
        seat = self._session.seat
        seen = seat.sighting() if seat else None
        return seen is None or seen.dead or seen.lease.pod == self._session.pod

    @property
    def unknown(self) -> bool:
        """Whether the chosen slot's Lease has to be read: nobody has told of it."""
        seat, leases = self._session.seat, self._session.leases()
        absent = leases is not None and seat is not None and seat.slot not in leases
        return seat is not None and seat.sighting() is None and not (absent and not self._session.config.planned)

    def refuse_twin(self) -> None:
        """Before a slot is taken from an earlier process of the same pod: if that one lives, there are two.

        Raises:
            RendezvousStateError: two agents run as the same pod for the same slot.
        """
        session, seat = self._session, self._session.seat
        seen = seat.sighting() if seat else None
        if seen is None or seen.dead or seen.lease.pod != session.pod or not seen.lease.store:
            return
        if links.asked(stores.split(seen.lease.store)) is links.Peer.THERE and seen.lease.nonce != session.nonce:
            raise RendezvousStateError(
                f"two processes with one identity: slot {seen.lease.slot} is held by process {seen.lease.nonce} of the "
                f"same pod ({session.pod}), which answers at {seen.lease.store}. Run one torchrun a pod, or give each "
                "a slot (JOB_COMPLETION_INDEX, or --rdzv-conf node=N) and an ELASTICJOB_POD_UID of its own"
            )


def choices(taken: Collection[int], high: int) -> list[int]:
    """The slots that are free, the lowest first: enough for *high* nodes, and one more for who is too many."""
    most = min(max(high, len(taken) + 1), slots.MAX_SLOTS)
    return [slot for slot in range(most) if slot not in taken] or [min(len(taken), slots.MAX_SLOTS - 1)]
