"""What must hold in :mod:`support.rendezvous_world` after every step, and what must have come about in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elasticjob_rendezvous.round.record import Phase

if TYPE_CHECKING:
    from support.rendezvous_world import World


CHECKING, TRAINING, DONE = "checking", "training", "done"
"""States of a process that is a member of a round."""


class BrokenError(AssertionError):
    """An invariant does not hold."""


def check(world: World) -> None:
    """Raises if an invariant of the protocol does not hold."""
    places: dict[tuple[int, int], str] = {}
    for p in world.procs:
        if p.state in (CHECKING, TRAINING) and places.setdefault((p.round, p.slot), p.nonce) != p.nonce:
            raise BrokenError(f"two processes hold slot {p.slot} of round {p.round}")
        if p.state == TRAINING and p.member not in world.sealed[p.round]:
            raise BrokenError(f"{p.member} trains in round {p.round} without being a member")
    full = []
    for number, members in world.sealed.items():
        if all(any(p.member == m and p.state == TRAINING and p.round == number for p in world.procs) for m in members):
            full.append(number)
        done = all((number, m.nonce) in world.finished for m in members)
        if done and any(p.state == TRAINING and p.round > number for p in world.procs):
            raise BrokenError(f"finished work (round {number}) runs again")
    if len(full) > 1:
        raise BrokenError(f"two complete worlds train at once: rounds {full}")


def settled(world: World) -> bool:
    """Closed; or a complete world of all that live and are wanted; or too few live, and waiting is right."""
    r, shape = world.record, world.shape
    if r is None:
        return not shape.planned and not any(p.alive for p in world.procs)
    if r.phase is Phase.CLOSED:
        return all(not p.alive for p in world.procs)
    wanted = r.plan if shape.planned else set(range(shape.slots))
    live = {p.slot for p in world.procs if p.alive and p.slot in wanted}
    if len(live) < shape.low:
        return True
    whole = r.running and all(
        (r.sealed, m.nonce) in world.finished
        or any(p.member == m and p.round == r.sealed and p.state in (TRAINING, DONE) for p in world.procs)
        for m in r.members
    )
    return whole and (live <= r.member_slots or len(r.members) >= shape.high or r.phase is Phase.FINISHING)
