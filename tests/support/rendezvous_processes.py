"""The processes in :mod:`support.rendezvous_world`: what each may do next, as ``round/agent.py`` decides it.

What is added here is the I/O around the decisions, reduced to what others can see of it: writes that lose, replies that
are lost, the check-in on rank 0's store, workers that start, stop, fail and finish, and the end of a process.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from elasticjob_rendezvous.round import agent, lease
from elasticjob_rendezvous.round.record import Member, Phase, Record
from support import rendezvous_invariants as invariants
from support.rendezvous_states import (
    ALIVE,
    BROKEN,
    CHECKING,
    CUT,
    DONE,
    FAILED,
    FENCED,
    HELD,
    LEAVING,
    NOTHING,
    ORPHAN,
    PRESENT,
    REACHED,
    SUCCEEDED,
    TOLD,
    TRAINING,
    VANISHED,
    WAITING,
    Proc,
    State,
    Step,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.rendezvous_world import World


class Turn(NamedTuple):
    """One process at one moment."""

    world: World
    at: State
    i: int
    p: Proc

    @property
    def me(self) -> agent.Process:
        return self.world.me[self.i]

    @property
    def member(self) -> Member:
        return self.world.members[self.i]

    @property
    def present(self) -> int:
        """My slot's Lease as it is."""
        return self.at.leases[self.me.slot]

    @property
    def connected(self) -> bool:
        """Whether a write of mine, over the record as it is, may succeed."""
        unguarded = "compare" in self.world.shape.deviations and self.p.view != NOTHING
        return self.p.api == REACHED and (self.p.view == self.at.record or unguarded)

    def may(self, kind: str) -> bool:
        return self.world.may(self.at, kind)

    def of(self, member: Member) -> int:
        return self.world.of[member.nonce]

    def step(self, what: str, **fields: object) -> Iterator[Step]:
        return self.world.step(self.at, self.world.name(self.i), what, i=self.i, **fields)  # type: ignore[arg-type]

    def now(self, **changes: object) -> Proc:
        return self.p._replace(**changes)  # type: ignore[arg-type]


def steps(turn: Turn) -> Iterator[Step]:
    """What may happen to, or be done by, a process."""
    yield from _faults(turn)
    yield from _learns(turn)
    if turn.p.flags & LEAVING:
        yield from _leaves(turn)
        if turn.p.state in (WAITING, CHECKING):
            return  # the signal interrupts torchrun's main thread, which waits here
    yield from _DOES[turn.p.state](turn)


def _faults(turn: Turn) -> Iterator[Step]:
    p = turn.p
    if turn.may("crash"):
        yield from turn.step("crashes", costs="crash", proc=over(p, FAILED))
    if turn.may("vanish"):
        yield from turn.step("vanishes", costs="vanish", proc=Proc(VANISHED))
    if turn.may("link") and not p.flags & BROKEN:
        yield from turn.step("loses its peers", costs="link", proc=turn.now(flags=p.flags | BROKEN))
    if turn.may("leave") and not p.flags & LEAVING and p.state != DONE:
        yield from turn.step("gets SIGTERM", costs="leave", proc=turn.now(flags=p.flags | LEAVING))
    if turn.may("cut") and p.api == REACHED:
        yield from turn.step("loses the API", costs="cut", proc=turn.now(api=CUT))


def _learns(turn: Turn) -> Iterator[Step]:
    world, at, p = turn.world, turn.at, turn.p
    if p.api != REACHED:
        own = turn.present if p.flags & HELD and p.api == FENCED else p.own  # fenced until it could renew its Lease
        yield from turn.step("has the API again", proc=turn.now(api=REACHED, own=own))
        if p.api == CUT:
            yield from turn.step("has been without the API for the fencing bound", proc=turn.now(api=FENCED))
        return
    if at.record not in (NOTHING, p.view):
        news = world.records[at.record]
        if p.view == NOTHING or news.number >= world.records[p.view].number:
            yield from turn.step(f"sees round {news.number} {news.phase.value}", proc=turn.now(view=at.record))
    if p.own != turn.present and (p.flags & HELD or world.leases[turn.present].nonce == turn.me.nonce):
        yield from turn.step("reads its Lease", proc=turn.now(own=turn.present, flags=p.flags | HELD))
    if at.pinned is not None and at.pinned[0] == turn.i:
        yield from turn.step("lists the Leases again", pinned=None)
    elif turn.may("stale") and at.pinned is None and p.state == WAITING and p.flags & HELD:
        look = (turn.i, NOTHING, at.leases, at.procs)
        yield from turn.step("lists the Leases, and is slow", costs="stale", pinned=look)


# Without workers


def _waiting(turn: Turn) -> Iterator[Step]:
    world, at, p = turn.world, turn.at, turn.p
    if not p.flags & HELD and world.leases[turn.present].nonce == turn.me.nonce:
        return  # a write whose reply was lost: it reads its Lease first
    action = decide(turn)
    if isinstance(action, agent.CheckIn):
        yield from _checks_in(turn, action.record)
    if p.api != REACHED:
        return
    if turn.may("refuse") and isinstance(action, agent.Wait):
        yield from _refused(turn)
    if isinstance(action, agent.Arrive):
        yield from _arrives(turn, action.number)
    elif isinstance(action, agent.Write):
        if turn.connected or (at.record == NOTHING and not turn.me.planned):
            yield from turn.step(action.what, record=world.record_id(action.record))
    elif isinstance(action, agent.Leave):
        fresh = turn.now(view=at.record if at.record != NOTHING else p.view, own=turn.present)
        last = decide(turn._replace(p=fresh))  # as the I/O does: what ends a process is read once more
        if isinstance(last, agent.Leave):
            invariants.ends(world, at, turn.i, last)
            yield from turn.step(f"ends: {last.message}", **_freed(turn, FAILED if last.code else SUCCEEDED))


def _refused(turn: Turn) -> Iterator[Step]:
    """Takes others for gone, whether they are or not, because their machines refused connections."""
    others = frozenset(one.nonce for one in map(turn.world.leases.__getitem__, turn.at.leases) if one.nonce)
    action = decide(turn, gone=others - {turn.me.nonce})
    if isinstance(action, agent.Write) and turn.connected:
        yield from turn.step(f"is refused: {action.what}", costs="refuse", record=turn.world.record_id(action.record))


def decide(turn: Turn, *, gone: frozenset[str] = frozenset()) -> agent.Action:
    """The agent's real decision; asked once for each situation."""
    world, at, i, p = turn
    own = p.own if p.flags & HELD else turn.present
    found, procs = at.leases, at.procs
    if at.pinned is not None and at.pinned[0] == i:
        _, _, found, procs = at.pinned
    silent, sightings, dead = _silent(turn), world.sightings(found, procs), world.dead(at.procs, own)
    view = NOTHING if at.record == NOTHING and not turn.me.planned else p.view
    key = (i, p.view, view, own, dead, p.flags & HELD, p.left, p.api == FENCED, silent, gone, id(sightings))
    action = world.decided.get(key)
    if action is None:
        action = world.decided[key] = agent.decide(
            agent.Situation(
                me=turn.me,
                record=None if view == NOTHING else world.records[view],
                own=world.sighting(own, dead=dead),
                held=bool(p.flags & HELD),
                left=p.left,
                fenced=p.api == FENCED and "late" not in world.shape.deviations,
                leases=sightings,
                waited=world.LONG,
                enough=world.LONG,
                silent=silent,
                gone=gone,
                seen=0 if p.view == NOTHING else world.records[p.view].number,
            )
        )
    return action


def _silent(turn: Turn) -> frozenset[Member]:
    """Members of the last round, as far as this process had workers in it, that it does not hear any more."""
    record = turn.world.records[turn.p.view] if turn.p.view != NOTHING else None
    if record is None or turn.p.round != record.sealed or turn.member not in record.members:
        return frozenset()
    heard = record.members if record.members[0] == turn.member else record.members[:1]
    return frozenset(m for m in heard if m != turn.member and _gone(turn, m))


def _gone(turn: Turn, m: Member) -> bool:
    other = turn.at.procs[turn.of(m)]
    return other.state not in ALIVE or bool((other.flags | turn.p.flags) & BROKEN)


def _arrives(turn: Turn, number: int) -> Iterator[Step]:
    world, p = turn.world, turn.p
    if p.flags & HELD and p.own != turn.present:
        return  # the write loses, and the Lease is read
    new = world.lease_id(arrived(turn.me, number, world.leases[turn.present].seen))
    held = turn.now(own=new, flags=p.flags | HELD)
    yield from turn.step(f"arrives for {number}", slot=turn.me.slot, found=new, proc=held)
    yield from turn.step(f"arrives for {number}, the reply is lost", costs="lost", slot=turn.me.slot, found=new)


def _leaves(turn: Turn) -> Iterator[Step]:
    """SIGTERM: the job goes on without this process, whose workers may still use their grace."""
    world, at, p = turn.world, turn.at, turn.p
    if turn.connected and not p.flags & TOLD and at.record != NOTHING:
        new = agent.without(turn.me, world.records[p.view])
        record = at.record if new is None else world.record_id(new)
        free = _freed(turn, "") if "early" in world.shape.deviations and p.state == TRAINING else {}
        yield from turn.step(
            "says that it leaves", **{**free, "proc": turn.now(flags=p.flags | TOLD), "record": record}
        )
    if p.state != DONE:
        if p.api == REACHED:
            yield from turn.step("leaves", **_freed(turn, FAILED))
        yield from turn.step("leaves without a word", proc=over(p, FAILED))


def _freed(turn: Turn, state: str) -> dict[str, object]:
    """What the end of a process changes: its slot is free, if it still holds it."""
    found, fields = turn.world.leases[turn.present], dict[str, object](proc=over(turn.p, state))
    if found.nonce == turn.me.nonce and turn.p.state != DONE:
        fields |= {"slot": turn.me.slot, "found": turn.world.lease_id(lease.SlotLease(turn.me.slot, seen=found.seen))}
    return fields


# The check-in


def _checks_in(turn: Turn, record: Record) -> Iterator[Step]:
    """Claims a rank at rank 0's store."""
    world, at, number = turn.world, turn.at, record.number
    place = invariants.rank(world, turn.i, record)
    claims = {n: (by, go) for n, by, go in at.past.claims}
    by, go = claims.get(number, ((NOTHING,) * len(record.members), False))
    if by[place] not in (NOTHING, turn.i) and "claims" not in world.shape.deviations:
        return
    if any(n == number for n, _ in at.past.sealed) and world.hosts(at, number):
        claims[number] = ((*by[:place], turn.i, *by[place + 1 :]), go)
    past = at.past._replace(claims=tuple((n, *one) for n, one in sorted(claims.items())))
    yield from turn.step(f"checks in to {number}", proc=turn.now(state=CHECKING, round=number), past=past)


def _checking(turn: Turn) -> Iterator[Step]:
    world, at, p = turn.world, turn.at, turn.p
    record, view = world.sealed(at, p.round), world.records[p.view]
    back = turn.now(state=WAITING, round=0)
    if p.api == FENCED and "late" not in world.shape.deviations:
        yield from turn.step("gives up the check-in", proc=back)
    else:
        yield from _goes(turn, record)
    if view.number != p.round or not view.running:
        yield from turn.step("leaves the check-in", proc=back)
    elif turn.connected:
        away = [m for m in record.members if not _meets(turn, turn.of(m), p.round)]
        yield from _accuses(turn, record, [m for m in away if not _comes(turn, m, p.round)], back)


def _goes(turn: Turn, record: Record) -> Iterator[Step]:
    """Rank 0 says *go* when all have claimed their ranks; the others start when they hear it."""
    world, at, number = turn.world, turn.at, turn.p.round
    by, go = next(((by, go) for n, by, go in at.past.claims if n == number), ((), False))
    first, trains = turn.of(record.members[0]), turn.now(state=TRAINING)
    if turn.i == first:
        anybody = "claims" in world.shape.deviations
        full = all(owner == turn.of(m) or (anybody and owner >= 0) for owner, m in zip(by, record.members, strict=True))
        if not go and (full or "go" in world.shape.deviations):
            invariants.starts(world, at, turn.i)
            claims = tuple((n, b, g or n == number) for n, b, g in at.past.claims)
            yield from turn.step(f"says go for {number}", proc=trains, past=at.past._replace(claims=claims))
    elif go and _meets(turn, first, number):
        invariants.starts(world, at, turn.i)
        yield from turn.step(f"trains in {number}", proc=trains)


def _meets(turn: Turn, other: int, number: int) -> bool:
    """Whether this process meets another on a round's store."""
    proc = turn.at.procs[other]
    there = proc.state in PRESENT and proc.round == number
    return there and (turn.i == other or not (proc.flags | turn.p.flags) & BROKEN)


def _comes(turn: Turn, m: Member, number: int) -> bool:
    """Whether a member is about to check in: a time-out is longer than that takes."""
    proc, own = turn.at.procs[turn.of(m)], turn.world.leases[turn.at.leases[m.slot]]
    arrived_ = own.nonce == m.nonce and own.arrived == number
    well = proc.api == REACHED and not (proc.flags | turn.p.flags) & BROKEN
    return proc.state == WAITING and well and proc.left != number and arrived_


def _accuses(turn: Turn, record: Record, away: list[Member], after: Proc) -> Iterator[Step]:
    """Rank 0 may suspect any, the others rank 0, after rank 0 had its chance; any of them wrongly."""
    world, at, first = turn.world, turn.at, record.members[0]
    others = [m for m in record.members if m != turn.member] if turn.member == first else [first]
    away = [m for m in away if m in others]
    judge = at.procs[turn.of(first)]
    if turn.member != first and judge.state in ALIVE and judge.api == REACHED and (judge.flags | turn.p.flags) & BROKEN:
        return  # rank 0's verdict comes before this one
    wrongly = others if not away and turn.may("suspect") else []
    for silent, costs in ((away, ""), *(([m], "suspect") for m in wrongly)):
        verdict = agent.judged(world.records[turn.p.view], turn.me, silent, world.sightings(at.leases, at.procs))
        if silent and verdict is not None:
            invariants.judges(world, at, turn.i, verdict.record)
            yield from turn.step(verdict.what, costs=costs, record=world.record_id(verdict.record), proc=after)


# With workers


def _training(turn: Turn) -> Iterator[Step]:
    world, at, p, me = turn.world, turn.at, turn.p, turn.me
    view = world.records[p.view]
    gone_on = agent.over(view, me, p.round)
    stopped = turn.now(state=WAITING, left=p.round)
    if gone_on:
        invariants.stops(world, at, turn.i, view)
    fenced = p.api == FENCED and "fence" not in world.shape.deviations
    if gone_on or fenced or world.leases[p.own].nonce != me.nonce:
        # As the handler has it: whoever was told to stop does not enter this very round again.
        yield from turn.step("stops its workers", proc=stopped)
    yield from turn.step("has workers that fail", costs="fail", proc=stopped)
    yield from _works(turn, view, stopped)
    if turn.connected and view.number == p.round:
        yield from _watches_over(turn, view)


def _works(turn: Turn, view: Record, stopped: Proc) -> Iterator[Step]:
    """The work is done: whoever is not there holds up all, whoever has finished nobody.

    Where nobody judges any more, because others have finished, workers without a peer end by an error of their own.
    """
    at, number, members = turn.at, turn.p.round, turn.world.sealed(turn.at, turn.p.round).members
    others = [turn.of(m) for m in members if m != turn.member]
    done = [j for j in others if (number, j) in at.past.finished or at.procs[j][:2] == (DONE, number)]
    if all(j in done or at.procs[j][:2] == (TRAINING, number) for j in others):
        yield from turn.step(f"finishes {number}", costs="" if done else "finish", proc=turn.now(state=DONE))
    elif view.phase is Phase.FINISHING:
        yield from turn.step("has workers that miss a peer", proc=stopped)


def _watches_over(turn: Turn, view: Record) -> Iterator[Step]:
    world, at, p = turn.world, turn.at, turn.p
    members = world.sealed(at, p.round).members
    away = [m for m in members if not _meets(turn, turn.of(m), p.round)]
    yield from _accuses(turn, world.sealed(at, p.round), away, p)
    if members[0] != turn.member:
        return
    if not turn.me.planned and agent.newcomers(view, world.sightings(at.leases, at.procs), turn.me):
        new = world.record_id(agent.taken_in(view))
        yield from turn.step(f"opens round {view.number + 1}: newcomers wait", record=new)
    if view.notice and p.own == turn.present:
        told = world.lease_id(dataclasses.replace(world.leases[p.own], checkpointed=view.notice.id))
        yield from turn.step("has saved", slot=turn.me.slot, found=told, proc=turn.now(own=told))


def _done(turn: Turn) -> Iterator[Step]:
    """In torch's exit barrier: what is finished is recorded before anything else."""
    world, at, p, me = turn.world, turn.at, turn.p, turn.me
    view, own = world.records[p.view], world.leases[p.own]
    lost, silent = own.nonce != me.nonce, "finish" in world.shape.deviations
    if own.finished != p.round and not lost and not silent:
        if p.api == REACHED and p.own == turn.present:
            told = world.lease_id(dataclasses.replace(own, finished=p.round))
            past = at.past._replace(finished=at.past.finished | {(p.round, turn.i)})
            yield from turn.step("records its finish", slot=me.slot, found=told, proc=turn.now(own=told), past=past)
        return
    if turn.connected and not lost and not silent and view.number == p.round:
        write = agent.after_finish(me, view, world.sightings(at.leases, at.procs))
        if write is not None:
            yield from turn.step(write.what, record=world.record_id(write.record))
    if lost or silent or _known(turn, view):
        past = at.past._replace(finished=at.past.finished | {(p.round, turn.i)}) if silent else at.past
        yield from turn.step("ends with 0", proc=over(p, SUCCEEDED), past=past)


def _known(turn: Turn, view: Record) -> bool:
    """Whether the job knows of the finish; standalone rank 0 stays until it is over, for somebody has to close."""
    if turn.at.record == NOTHING and turn.p.api == REACHED and not turn.me.planned:
        return True
    first = turn.world.sealed(turn.at, turn.p.round).members[0] == turn.member
    stays = first and not turn.me.planned and view.phase is Phase.FINISHING
    return (view.phase in (Phase.FINISHING, Phase.CLOSED) or view.number > turn.p.round) and not stays


_DOES = {WAITING: _waiting, CHECKING: _checking, TRAINING: _training, DONE: _done}


def over(p: Proc, state: str) -> Proc:
    """A process that has ended, and what its pod's object says of it, if there still is one."""
    return Proc(VANISHED if p.flags & ORPHAN else state)


def arrived(me: agent.Process, number: int, seen: int) -> lease.SlotLease:
    """The Lease of a process that has arrived."""
    return lease.SlotLease(me.slot, me.pod, me.nonce, number, store(me), seen=max(number, seen))


def store(me: agent.Process) -> str:
    """The address of a process's own store."""
    return f"host-{me.nonce}:1"
