"""Freeing the slots of dead processes, so that their successors need not wait until a Lease has stood still for long.

A pod that has ended, or whose object is gone, is dead: so Kubernetes' own StatefulSets have it, and whoever deletes a
pod by force on a cluster node that can't be reached vouches for that. A pod that is being deleted still lives. Of a pod
that is gone the Lease is the last trace: it is freed only when what is counted is, for good, in the status.
"""

import dataclasses
from collections.abc import Callable, Iterator

from elasticjob_operator.core.actions import ReleaseLease
from elasticjob_operator.core.observed import Observed
from elasticjob_rendezvous.round import lease as slot_leases
from elasticjob_rendezvous.round.lease import SlotLease
from elasticjob_rendezvous.round.record import Phase, Record


def releases(observed: Observed, record: Record | None, uncounted: frozenset[str]) -> Iterator[ReleaseLease]:
    """The Leases to free: each holder is dead, and no finish that still counts is wiped out.

    *uncounted* are UIDs of pods that no status counts yet.
    """
    if record is not None and record.phase is Phase.CLOSED:
        return
    kept = _kept(observed, record)
    for _, lease in sorted(observed.leases.items()):
        if _dead(observed, lease) and lease.pod not in uncounted and not kept(lease):
            yield ReleaseLease(lease)


def _dead(observed: Observed, lease: SlotLease) -> bool:
    pod = observed.by_uid.get(lease.pod)
    return not lease.free and (pod is None or pod.terminal)


def _kept(observed: Observed, record: Record | None) -> Callable[[SlotLease], bool]:
    """Whether a Lease says of a finish that still counts."""
    if record is None or record.sealed == 0:
        return lambda lease: bool(lease.finished)
    over = not (record.phase is Phase.OPEN and _witnessed(observed, record))
    return lambda lease: over and lease.finished == record.sealed


def _witnessed(observed: Observed, record: Record) -> bool:
    """Whether a member of the last round has left it unfinished, so that the round is not over as a success."""
    return any(
        observed.lease(m.slot).nonce != m.nonce or observed.lease(m.slot).arrived > record.sealed
        for m in record.members
    )


def after(observed: Observed, freed: tuple[ReleaseLease, ...]) -> Observed:
    """What will be there once the Leases are free."""
    leases = {**observed.leases, **{action.lease.slot: slot_leases.freed(action.lease) for action in freed}}
    return dataclasses.replace(observed, leases=leases)
