"""The states of the protocol as it is explored: frozen values, so that equal ones are found again."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

UNBORN, WAITING, CHECKING, TRAINING, DONE = "unborn", "waiting", "checking", "training", "done"
SUCCEEDED, FAILED, VANISHED = "succeeded", "failed", "vanished"
"""A process that has ended: with code 0, with another, or with its pod's object."""

ALIVE = frozenset({WAITING, CHECKING, TRAINING, DONE})
PRESENT = frozenset({CHECKING, TRAINING, DONE})
"""States in which peers find a process on the round's store."""

REACHED, CUT, FENCED = 0, 1, 2
"""The API: in reach, out of reach, out of reach for longer than the fencing bound."""

HELD, LEAVING, TOLD, BROKEN, ORPHAN = 1, 2, 4, 8, 16
"""Flags of a process: has ever held its slot; got its SIGTERM; has announced it; its links to all peers are broken; its
pod's object was deleted while it lives."""

NOTHING = -1
LONG = 1e9
"""Seconds: every stagger, last call and limit is over."""


class Proc(NamedTuple):
    """What one process knows and does. Records and Leases are places in the world's tables."""

    state: str = UNBORN
    round: int = 0
    view: int = NOTHING
    own: int = NOTHING
    api: int = REACHED
    left: int = 0
    flags: int = 0


class Past(NamedTuple):
    """What was once true, as far as an invariant or a peer still needs it."""

    top: int = 0
    sealed: tuple[tuple[int, int], ...] = ()
    """Number and record of each sealed round."""
    done: int = 0
    """The last round that all its members have finished."""
    finished: frozenset[tuple[int, int]] = frozenset()
    """Round and process of each recorded finish."""
    claims: tuple[tuple[int, tuple[int, ...], bool], ...] = ()
    """On the stores of rounds: number, the process that has claimed each rank, whether rank 0 has said *go*."""


class State(NamedTuple):
    """Everything at one moment."""

    record: int
    leases: tuple[int, ...]
    procs: tuple[Proc, ...]
    wanted: int
    budget: tuple[int, ...]
    pinned: tuple[int, int, tuple[int, ...], tuple[Proc, ...]] | None = None
    """An old look at the Leases that somebody still acts on: who, at which record, the Leases, the processes."""
    past: Past = Past()


class Step(NamedTuple):
    """One step: who does what, whether it happens without a fault, and what comes of it."""

    who: str
    what: str
    fair: bool
    state: State


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a world is made of, and what may go wrong in it."""

    pods: tuple[tuple[int, str], ...]
    """Slot and pod of each process that may ever be; one after the other in a slot."""
    low: int
    high: int
    faults: Mapping[str, int]
    """How often each kind may happen: see :meth:`World.steps`."""
    wanted: int = 0
    """Nodes that the job wants at first. With 0 there is no operator: min, max and last call decide."""
    trained: bool = False
    """Whether the first round is already sealed and trains."""
    sealed: bool = False
    """Whether it is sealed, and nobody has checked in yet."""
    away: frozenset[int] = frozenset()
    """Slots whose processes have just lost the API."""
    grace: int = 0
    """Seconds for a checkpoint before a resize."""
    rounds: int = 0
    """Where a fault may last for ever, and rounds with it: how many are looked at. 0 is all."""
    operator_down: bool = False
    deviations: frozenset[str] = frozenset()
    """Rules that the world's own part (stores, pods, time) breaks on purpose: what a mutation check switches on."""

    @property
    def planned(self) -> bool:
        return self.wanted > 0

    @property
    def slots(self) -> int:
        return 1 + max(slot for slot, _ in self.pods)
