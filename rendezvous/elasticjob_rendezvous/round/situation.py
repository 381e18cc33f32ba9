"""What an agent may know when it decides what it does next, and the actions that it may decide on.

Values only: what follows from them is in :mod:`~elasticjob_rendezvous.round.agent`, through which they are used.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from elasticjob_rendezvous.round.record import Member, Reason, Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elasticjob_rendezvous.round.lease import SlotLease


@dataclasses.dataclass(frozen=True)
class Process:
    """Who I am: one process in one slot. ``planned``: an operator decides which slots are wanted.

    ``low`` and ``high`` are torchrun's. With an operator they are what was so when the pod was made: the plan is the
    maximum, and the record's ``min_nodes`` the minimum.
    """

    job: str
    slot: int
    nonce: str
    pod: str
    low: int
    high: int
    planned: bool


@dataclasses.dataclass(frozen=True)
class Sighting:
    """A Lease, how long it has stood still before my eyes, and how long that may last while its holder lives."""

    lease: SlotLease
    still: float
    limit: float

    @property
    def dead(self) -> bool:
        """Whether no process can still be acting for the slot."""
        return self.lease.free or self.still > self.limit


@dataclasses.dataclass(frozen=True)
class Situation:
    """All that a decision rests on. Seconds are by my own monotonic clock."""

    me: Process
    record: Record | None
    own: Sighting | None
    """My slot's Lease, whoever holds it; None where there is none yet."""
    held: bool = False
    """Whether I have ever held it."""
    left: int = 0
    """The round that I left by my own doing: my workers failed, or I could not reach the API."""
    why: Reason = Reason.WORKERS_FAILED
    fenced: bool = False
    """Whether I have been without the API for so long that my slot may soon be another's."""
    leases: Mapping[int, Sighting] | None = None
    """Every Lease of the job; None while nobody has looked."""
    waited: float = 0.0
    """Since I arrived for the open round."""
    enough: float = 0.0
    """Standalone: since enough have arrived for it."""
    silent: frozenset[Member] = frozenset()
    """Members of the last sealed round that I was in whom I do not hear any more."""
    gone: frozenset[str] = frozenset()
    """Processes that hold a slot and refused a connection at the store that their Lease names, by nonce."""
    seen: int = 0
    """The highest number that I have seen myself."""
    stagger: float = 1.0
    last_call: float = 5.0


@dataclasses.dataclass(frozen=True)
class Wait:
    """Nothing to do until something changes. ``look``: keep an eye on all Leases meanwhile."""

    look: bool = False


@dataclasses.dataclass(frozen=True)
class Arrive:
    """Write my Lease: I hold the slot (taking it where I don't yet) and have arrived for ``number``."""

    number: int
    take: bool = False


@dataclasses.dataclass(frozen=True)
class Write:
    """Write ``record`` over the one that this was decided on; ``what`` is said in the log."""

    record: Record
    what: str


@dataclasses.dataclass(frozen=True)
class CheckIn:
    """Go to rank 0's store of the sealed round ``record`` and claim my rank."""

    record: Record


@dataclasses.dataclass(frozen=True)
class Leave:
    """Release the Lease and end with exit code ``code``."""

    code: int
    message: str


Action = Wait | Arrive | Write | CheckIn | Leave
