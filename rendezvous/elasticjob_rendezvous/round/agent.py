"""What an agent does next: from what it knows to one named action.

Pure: the record and Leases it has read, and how long it has waited, come in as values; the caller carries the action
out and asks again. Any action may come to nothing, as a write loses its race or its reply: nothing here counts on it.

Invariants, each checked where it could be broken (record.py and changing.py check the record's own):

* Nobody arrives, seals, opens or checks in without holding its slot's Lease, and a Lease once lost is not taken back.
* A Lease is taken only when it is free, an earlier process's of the same pod, or has stood still for longer than its
  holder may go on without the API (``limit``). A finish that still counts is not overwritten.
* Members are those processes that arrived for this very number. No suspect is among them.
* A round is sealed only if a member of the last one is known to have left it: the *witness*. Two worlds never train.
* Who left a round by its own doing does not enter it again.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Member, Phase, Reason, Record, Result
from elasticjob_rendezvous.round.situation import (
    Action,
    Arrive,
    CheckIn,
    Leave,
    Process,
    Sighting,
    Situation,
    Wait,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from elasticjob_rendezvous.round.lease import SlotLease

NEAR_CANDIDATES = 3
"""So many slots try to seal one stagger after the other; those behind them wait ten times as long each, or a thousand
agents would watch all Leases whenever the first slot is late."""

GONE = "who had not finished is gone"
"""Why a job without an operator fails after some of it has finished."""


def decide(at: Situation) -> Action:  # noqa: PLR0911 - one return a rule
    """The next action of an agent without running workers."""
    me, record = at.me, at.record
    mine = at.own is not None and at.own.lease.nonce == me.nonce
    if at.held and not mine:
        return Leave(1, f"slot {me.slot} was taken over by another process")
    if record is None:
        return Wait() if me.planned else _create(at)
    if record.phase is Phase.CLOSED:
        return _closed(record)
    if me.planned and me.slot not in record.plan:
        return Leave(0, f"slot {me.slot} is not wanted any more")
    end = None if me.planned or at.leases is None else ending(me, record, at.leases)
    if end is not None and (mine or end.record.phase is Phase.CLOSED):
        return end
    if at.own is None:
        return Wait() if me.planned else Arrive(_target(record), take=True)
    if not mine:
        return Arrive(_target(record), take=True) if may_take(at.own, me, record) else Wait()
    return _holding(at, record, at.own.lease)


def _holding(at: Situation, record: Record, own: SlotLease) -> Action:  # noqa: PLR0911 - one return a rule
    """The next action of who holds its slot."""
    me, number = at.me, record.number
    member = _member(me) in record.members
    left = record.running and at.left == number
    if record.phase is Phase.SEALED and left:
        return Write(opened(record, at.why, planned=me.planned), f"opens round {number + 1}: {at.why.value}")
    if left and not me.planned:
        return Leave(1, "workers failed while others had finished")
    if record.phase is Phase.SEALED and member and own.arrived == number:
        return Wait() if at.fenced else CheckIn(record)
    if own.arrived != _target(record):
        return Arrive(_target(record))
    if record.phase is Phase.OPEN:
        return _seal(at, record)
    if record.phase is Phase.SEALED and me.slot in record.member_slots and not member:
        return Write(
            opened(record, Reason.AGENT_RESTARTED, planned=me.planned),
            f"opens round {number + 1}: the process before this one was a member of round {number}",
        )
    return Wait(look=not me.planned)


def _target(record: Record) -> int:
    """The round to arrive for: the open one; beside a sealed one the next, where newcomers park."""
    return record.number + record.running


def opened(
    record: Record, reason: Reason, *, planned: bool, suspects: Collection[str] = (), absent: Collection[int] = ()
) -> Record:
    """The next round, as an agent may open it: it never waits for slots that were not in the last one."""
    others = record.plan - record.member_slots if planned else frozenset()
    return changing.opened(record, reason, absent=others | frozenset(absent), suspects=suspects)


def may_take(own: Sighting, me: Process, record: Record | None) -> bool:
    """Whether the slot's Lease may be taken from whoever holds it."""
    lease = own.lease
    if lease.finished and record is not None and (unknown(record) or record.sealed == lease.finished):
        return False
    return own.dead or lease.pod == me.pod


def unknown(record: Record) -> bool:
    """Whether the last membership was lost with the ConfigMap that held it."""
    return record.sealed == 0 and record.number > 1


def _closed(record: Record) -> Leave:
    if record.result is Result.SUCCEEDED:
        return Leave(0, "the job has succeeded")
    return Leave(1, f"the job has failed (round {record.number}){': ' if record.end else ''}{record.end}")


# Sealing


def _seal(at: Situation, record: Record) -> Action:
    """Seals the open round if its time has come, and else makes it come: forgives suspects, passes over the dead."""
    if at.leases is None:
        return Wait(look=at.waited >= turn(at, record))
    here = arrived(at.me, record, at.leases)
    missing = _awaited(at, record, at.leases) - here.keys()
    size = record.fitting(len(here)) if at.me.planned else min(len(here), at.me.high)
    if not missing and size >= least(at.me, record) and witnessed(record, at.leases) and _called(at, here):
        members = [Member(slot, here[slot].nonce) for slot in sorted(here)[:size]]
        return Write(
            changing.sealed(record, members, here[members[0].slot].store),
            f"seals round {record.number}, nodes: {len(members)}",
        )
    back = {s.lease.nonce for s in at.leases.values() if s.lease.arrived == record.number} & record.suspects
    if back and _without_suspects(at, record) < least(at.me, record):
        return Write(
            changing.amended(record, suspects=record.suspects - back),
            f"forgives {', '.join(sorted(back))}: too few without",
        )
    silent = _also_silent(at, record, missing)
    if silent:
        return Write(changing.amended(record, suspects=record.suspects | silent), f"does not wait for {sorted(silent)}")
    gone = _given_up(record, missing, at.leases)
    if at.me.planned and gone:
        return Write(
            changing.amended(record, absent=record.absent | gone),
            f"does not wait for {sorted(gone)}: Lease stood still",
        )
    return Wait(look=True)


def _given_up(record: Record, missing: Collection[int], leases: Mapping[int, Sighting]) -> set[int]:
    """Slots that are not worth waiting for: their holder is dead, or nobody has taken them for as long as that takes.

    The latter not at a start: then the operator may wait for its pods for as long as it is told to.
    """
    starts = record.reason in (Reason.STARTED, Reason.RESUMED)
    return {
        slot
        for slot in missing
        if slot in leases and leases[slot].still > leases[slot].limit and not (starts and leases[slot].lease.free)
    }


def _also_silent(at: Situation, record: Record, missing: Collection[int]) -> set[str]:
    """Whom the open round waits for in vain: members who fell silent after it was opened, if enough are left."""
    found = {m.nonce for m in suspected(record, at.me, at.silent) if m.slot in missing and m != _member(at.me)}
    found &= {s.lease.nonce for s in (at.leases or {}).values()} - record.suspects
    if not found:
        return found
    enough = _without_suspects(at, dataclasses.replace(record, suspects=record.suspects | found)) >= least(
        at.me, record
    )
    return found if enough else set()


def turn(at: Situation, record: Record) -> float:
    """How long to leave the sealing to the slots before mine, in seconds after my arrival."""
    suspected = {m.slot for m in record.members if m.nonce in record.suspects}
    wanted = record.plan - record.absent if at.me.planned else record.member_slots or range(at.me.slot)
    before = sum(1 for slot in wanted if slot < at.me.slot and slot not in suspected)
    return at.stagger * (before + 9 * max(0, before - NEAR_CANDIDATES))


def least(me: Process, record: Record) -> int:
    """How many members the open *record* needs: as the operator says now, else as this process was told."""
    return (record.min_nodes if me.planned else 0) or me.low


def arrived(me: Process, record: Record, leases: Mapping[int, Sighting]) -> dict[int, SlotLease]:
    """Who may be a member of the open *record*: wanted, arrived for it with a store, and no suspect."""
    return {
        slot: seen.lease
        for slot, seen in leases.items()
        if (slot in record.plan or not me.planned)
        and not seen.lease.free
        and seen.lease.arrived == record.number
        and seen.lease.store
        and seen.lease.nonce not in record.suspects
    }


def missed(at: Situation, record: Record, leases: Mapping[int, Sighting]) -> dict[int, SlotLease | None]:
    """Slots that the seal of the open *record* waits for, with their Leases where there are any."""
    here = arrived(at.me, record, leases)
    slots = _awaited(at, record, leases) - here.keys()
    return {slot: leases[slot].lease if slot in leases else None for slot in slots}


def _awaited(at: Situation, record: Record, leases: Mapping[int, Sighting]) -> set[int]:
    """Slots without which the round is not sealed.

    A suspect is a process: its successor in the slot is awaited. So is the successor of one that was found gone. Such
    a finding may be wrong: it only ends the waiting, and is no witness.
    """
    out = record.suspects | at.gone
    if at.me.planned:
        return {s for s in record.plan - record.absent if s not in leases or leases[s].lease.nonce not in out}
    members = {m.slot: m.nonce for m in record.members if m.nonce not in out}
    return {s for s, nonce in members.items() if s in leases and leases[s].lease.nonce == nonce and not leases[s].dead}


def witnessed(record: Record, leases: Mapping[int, Sighting]) -> bool:
    """Whether a member of the last round is known to have left it: that world neither trains on nor is finished.

    Where the last membership is unknown, every holder must have arrived for this round instead.
    """
    if unknown(record):
        return all((s.lease.free or s.lease.arrived == record.number) and not s.lease.finished for s in leases.values())
    return not record.members or any(
        leases[m.slot].lease.nonce != m.nonce or leases[m.slot].lease.arrived > record.sealed
        for m in record.members
        if m.slot in leases
    )


def _called(at: Situation, here: Mapping[int, SlotLease]) -> bool:
    """Standalone: whether nobody else is worth waiting for. All are there, or the last call is over."""
    if at.me.planned or len(here) >= at.me.high or at.enough >= at.last_call:
        return True
    live = {slot for slot, seen in (at.leases or {}).items() if not seen.dead}
    return bool(at.record and at.record.members) and live <= here.keys()


def _without_suspects(at: Situation, record: Record) -> int:
    """How many the round could have if no suspect came back in."""
    leases = at.leases or {}
    here = arrived(at.me, record, leases).keys()
    return len(here | _awaited(at, record, leases)) if at.me.planned else len(here)


# Standalone


def _create(at: Situation) -> Action:
    """The first record, or one above every number that any Lease has seen: never the first again."""
    if at.leases is None:
        return Wait(look=True)
    seen = max((at.seen, *(s.lease.seen for s in at.leases.values())))
    reason = Reason.STATE_LOST if seen else Reason.STARTED
    return Write(changing.started(at.me.job, (), number=seen + 1, reason=reason), f"starts round {seen + 1}")


def ending(me: Process, record: Record, leases: Mapping[int, Sighting]) -> Write | None:
    """Closes when all members have finished, or the others are gone; asks for a round when no member lives."""
    if not record.members or record.phase is Phase.CLOSED:
        return None
    if all(finished(m, record, leases) for m in record.members):
        return Write(changing.closed(record, Result.SUCCEEDED), "closes: all have finished")
    if not all(finished(m, record, leases) or lost(m, leases) for m in record.members):
        return None
    if record.phase is Phase.FINISHING:
        return Write(changing.closed(record, Result.FAILED, GONE), f"closes: {GONE}")
    if record.phase is Phase.SEALED and _member(me) not in record.members:
        return Write(
            opened(record, Reason.POD_LOST, planned=False), f"opens round {record.number + 1}: no member lives"
        )
    return None


def newcomers(record: Record, leases: Mapping[int, Sighting], me: Process) -> set[int]:
    """Standalone: slots whose processes are parked for the next round, if it has room for them."""
    if record.phase is not Phase.SEALED or len(record.members) >= me.high:
        return set()
    members = record.member_slots
    return {
        slot
        for slot, seen in leases.items()
        if slot not in members and not seen.dead and seen.lease.arrived == record.number + 1
    }


# With workers


def over(record: Record, me: Process, number: int) -> bool:
    """Whether the workers of round *number* must stop. Not a member's when all has succeeded: they are about to end."""
    if record.phase is not Phase.CLOSED:
        return record.number > number
    member = record.sealed == number and _member(me) in record.members
    return not (record.result is Result.SUCCEEDED and member)


def after_finish(me: Process, record: Record, leases: Mapping[int, Sighting]) -> Write | None:
    """What a member writes whose workers have ended well: the round is finishing; standalone, the last one closes."""
    if record.phase is Phase.SEALED:
        return Write(changing.finishing(record), f"round {record.number} is finishing")
    return None if me.planned else ending(me, record, leases)


def taken_in(record: Record) -> Record:
    """Standalone: the round that takes newcomers in."""
    return opened(record, Reason.NODE_JOINED, planned=False)


def without(me: Process, record: Record) -> Record | None:
    """The record that goes on without this process, which is told to end; None where it already does."""
    gone = {me.slot} & record.plan
    if record.phase is Phase.SEALED and _member(me) in record.members:
        return opened(record, Reason.AGENT_LEFT, planned=me.planned, suspects={me.nonce}, absent=gone)
    if record.phase is Phase.OPEN and me.nonce not in record.suspects:
        return changing.amended(record, absent=record.absent | gone, suspects=record.suspects | {me.nonce})
    return None


def wanted(me: Process, record: Record) -> bool:
    """Whether the operator counts on this process, so that it is a loss if it goes."""
    return me.planned and record.phase is not Phase.CLOSED and me.slot in record.plan


def finished(member: Member, record: Record, leases: Mapping[int, Sighting]) -> bool:
    """Whether *member* has finished the last sealed round."""
    seen = leases.get(member.slot)
    return seen is not None and seen.lease.nonce == member.nonce and seen.lease.finished == record.sealed


def lost(member: Member, leases: Mapping[int, Sighting]) -> bool:
    """Whether *member* can't be acting any more."""
    seen = leases.get(member.slot)
    return seen is None or seen.lease.nonce != member.nonce or seen.dead


def judged(record: Record, me: Process, silent: Collection[Member], leases: Mapping[int, Sighting]) -> Write | None:
    """What a member does about *silent* ones: rank 0 about any, the others about rank 0.

    Silent because finished is no fault. Who hears only a minority takes itself for the one that is cut off.
    """
    suspects = suspected(record, me, silent)
    if record.phase is not Phase.SEALED or not suspects:
        return None
    if any(finished(m, record, leases) for m in record.members):
        return Write(changing.finishing(record), f"round {record.number} is finishing")
    return Write(
        opened(record, Reason.PEER_SILENT, planned=me.planned, suspects={m.nonce for m in suspects}),
        f"opens round {record.number + 1} without {', '.join(str(m) for m in sorted(suspects, key=lambda m: m.slot))}",
    )


def suspected(record: Record, me: Process, silent: Collection[Member]) -> set[Member]:
    """Whom I may take for lost: rank 0 anyone, the others rank 0; and who hears only a minority itself alone."""
    suspects = {m for m in silent if m in record.members}
    if _member(me) not in record.members:
        return set()
    if record.members[0] != _member(me):
        return suspects & {record.members[0]}
    heard = len(record.members) - len(suspects)
    return suspects if 2 * heard >= len(record.members) else {_member(me)}


def _member(me: Process) -> Member:
    return Member(me.slot, me.nonce)
