"""What must hold in :mod:`support.rendezvous_world`, whatever happens: the invariants of the protocol.

Those about a step are called where the step is made, those about a state by :func:`check`. In the end a world must have
:func:`settled`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elasticjob_rendezvous.round import agent
from elasticjob_rendezvous.round.record import Phase, Reason, Record, Result
from support.rendezvous_states import ALIVE, BROKEN, CHECKING, NOTHING, TRAINING, UNBORN

if TYPE_CHECKING:
    from support.rendezvous_states import Past, State
    from support.rendezvous_world import World


ROUNDS_A_FAULT = 2
"""So many rounds one fault may cost: one without the node that is lost, and one with its successor."""


class BrokenError(AssertionError):
    """An invariant does not hold."""


_ORDER = tuple(Phase)
_NO_LOSS = (Reason.RESIZED, Reason.NODE_JOINED, Reason.SUSPENDED)


def after_write(world: World, at: State, new: int, past: Past) -> Past:
    """A write of the record: numbers only grow, a round is opened from a sealed one and sealed once, closed is closed.

    Members hold no suspect, are as many as are needed and no more than are wanted; a success is closed only when every
    member that counts has recorded its finish.
    """
    if new == NOTHING:
        return past
    record, old = world.records[new], world.records[at.record] if at.record != NOTHING else None
    if record.number < past.top:
        raise BrokenError(f"the round number went back: {record.number} after {past.top}")
    if old is not None:
        _follows(old, record)
    elif record.number == past.top and past.sealed and past.sealed[-1][0] == record.number:
        raise BrokenError(f"round {record.number}, which was sealed, is opened again")
    if record.phase is Phase.SEALED and (old is None or old.phase is Phase.OPEN):
        _seals(world, past, old, record)
        past = past._replace(sealed=(*past.sealed, (record.number, new)))
    if record.result is Result.SUCCEEDED:
        for m in record.members:
            counts = not world.shape.planned or m.slot in record.plan
            if counts and (record.sealed, world.of[m.nonce]) not in past.finished:
                raise BrokenError(f"closed as a success before {m} had finished")
    return past._replace(top=record.number)


def _follows(old: Record, new: Record) -> None:
    if old.phase is Phase.CLOSED:
        raise BrokenError(f"a closed job is {new.phase.value} again")
    if new.number != old.number and not (new.number == old.number + 1 and old.running and new.phase is Phase.OPEN):
        raise BrokenError(f"round {new.number} {new.phase.value} follows {old.number} {old.phase.value}")
    if old.phase is Phase.FINISHING and new.phase is Phase.OPEN and new.reason in _NO_LOSS:
        raise BrokenError(f"a round that is finishing is left: {new.reason.value}")
    if new.number == old.number and _ORDER.index(new.phase) < _ORDER.index(old.phase):
        raise BrokenError(f"round {new.number} goes from {old.phase.value} back to {new.phase.value}")


def _seals(world: World, past: Past, old: Record | None, record: Record) -> None:
    if any(number == record.number for number, _ in past.sealed):
        raise BrokenError(f"a second membership for round {record.number}")
    least = record.min_nodes or world.shape.low
    most = len(record.plan) if world.shape.planned else world.shape.high
    if not least <= len(record.members) <= most:
        raise BrokenError(f"a world of {len(record.members)}, where {least} to {most} are wanted")
    if world.shape.planned and not record.member_slots <= record.plan:
        raise BrokenError("a member that is not in the plan")
    if list(record.members) != sorted(record.members, key=lambda m: m.slot):
        raise BrokenError("ranks that do not go by slots")
    if record.store != world.store(record.members[0]):
        raise BrokenError("a store that is not rank 0's")
    if old is not None and any(m.nonce in old.suspects for m in record.members):
        raise BrokenError("a suspect is sealed as a member")


def rank(world: World, i: int, record: Record) -> int:
    """A process's place among the members: it has one only if the record names it."""
    if world.members[i] in record.members:
        return record.members.index(world.members[i])
    slots = [m.slot for m in record.members]
    return slots.index(world.me[i].slot)


def starts(world: World, at: State, i: int) -> None:
    """Nobody's workers start before all members have checked in, nor in a slot of another process."""
    number = at.procs[i].round
    members = world.sealed(at, number).members
    by = next(by for n, by, _ in at.past.claims if n == number)
    for m, owner in zip(members, by, strict=True):
        if owner == NOTHING:
            raise BrokenError(f"{world.name(i)} starts in round {number} before {m} has checked in")


def stops(world: World, at: State, i: int, view: Record) -> None:
    """No member's workers are stopped because all has succeeded: they are about to end."""
    wanted = not world.shape.planned or world.me[i].slot in view.plan
    member = world.members[i] in view.members and view.sealed == at.procs[i].round
    if view.result is Result.SUCCEEDED and member and wanted:
        raise BrokenError(f"{world.name(i)} is stopped by the close of a success")


def ends(world: World, at: State, i: int, action: agent.Leave) -> None:
    """Nobody who lives and is wanted ends with 0 before the job is over."""
    record = world.records[at.record] if at.record != NOTHING else None
    if action.code or record is None or record.phase is Phase.CLOSED or not world.shape.planned:
        return
    if world.me[i].slot in record.plan:
        raise BrokenError(f"{world.name(i)} ends with 0 although the job wants it")


def judges(world: World, at: State, i: int, record: Record) -> None:
    """Who has lost its links to all peers never leaves a majority that is well behind."""
    proc, members = at.procs[i], record.members
    well = [
        m
        for m in members
        if at.procs[world.of[m.nonce]].state in ALIVE and not at.procs[world.of[m.nonce]].flags & BROKEN
    ]
    wronged = [m for m in well if m.nonce in record.suspects and m != world.members[i]]
    if proc.flags & BROKEN and wronged and 2 * len(well) > len(members):
        raise BrokenError(f"{world.name(i)}, which hears nobody, leaves {', '.join(map(str, wronged))} behind")


def check(world: World, at: State) -> None:
    """Who trains is a member, alone in its rank; two complete worlds never train; what is finished is not run again."""
    _calm(world, at)
    places: dict[tuple[int, int], int] = {}
    training: dict[int, int] = {}
    for i, p in enumerate(at.procs):
        if p.state not in (CHECKING, TRAINING):
            continue
        slot = world.me[i].slot
        if places.setdefault((p.round, slot), i) != i:
            raise BrokenError(f"two processes hold slot {slot} of round {p.round}")
        if p.state == TRAINING:
            training[p.round] = training.get(p.round, 0) + 1
            if world.members[i] not in world.sealed(at, p.round).members:
                raise BrokenError(f"{world.name(i)} trains in round {p.round} and is no member of it")
    full = [number for number, count in training.items() if count == len(world.sealed(at, number).members)]
    if len(full) > 1:
        raise BrokenError(f"two complete worlds train at once: rounds {full}")
    if training and 0 < at.past.done < max(training):
        raise BrokenError(f"finished work (round {at.past.done}) runs again in round {max(training)}")


def _calm(world: World, at: State) -> None:
    """No storm: what goes wrong costs a few rounds, what does not costs none; standalone each newcomer one."""
    spent = sum(world.shape.faults.values()) - sum(at.budget) + len(world.shape.away)
    joined = 0 if world.shape.planned else world.shape.slots
    if not world.shape.rounds and at.past.top - 1 > ROUNDS_A_FAULT * spent + joined:
        raise BrokenError(f"{at.past.top - 1} rounds for {spent} faults")


def finished(world: World, past: Past, number: int, record: int) -> bool:
    """Whether all members of a round have recorded its finish."""
    return all((number, world.of[m.nonce]) in past.finished for m in world.records[record].members)


def settled(world: World, at: State) -> bool:
    """Closed and over; a complete world of all that live and are wanted; or too few live, and nobody more may come."""
    if world.frontier(at):
        return True
    alive = [i for i, p in enumerate(at.procs) if p.state in ALIVE]
    if at.record == NOTHING:  # without an operator it is made again when it is needed
        return not world.shape.planned and all(at.procs[i].state == TRAINING for i in alive)
    r, shape = world.records[at.record], world.shape
    if r.phase is Phase.CLOSED:
        return not alive
    wanted = range(shape.slots) if not shape.planned else r.plan
    live = {world.me[i].slot for i in alive if world.me[i].slot in wanted}
    unborn = {me.slot for me, p in zip(world.me, at.procs, strict=True) if p.state == UNBORN}
    unborn = set() if shape.operator_down else unborn
    if len(live) < agent.least(world.me[0], r) and not unborn & set(wanted) - live:
        return True
    whole = r.running and all(at.procs[world.of[m.nonce]][:2] == (TRAINING, r.sealed) for m in r.members)
    most = len(r.plan) if shape.planned else shape.high
    if shape.operator_down:  # nobody takes newcomers in, nor opens a round when no member lives
        lost = all(at.procs[world.of[m.nonce]].state not in ALIVE for m in r.members)
        return whole or lost
    return whole and (live <= r.member_slots or len(r.members) >= most)
