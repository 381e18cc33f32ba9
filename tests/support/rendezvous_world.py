"""The protocol as a transition system: a few processes, their Leases, the round record, and all that can go wrong.

No copy of the protocol: what a process does is what ``elasticjob_rendezvous.round`` decides, what the operator does is
what its ``core`` decides; here both are carried out on a frozen state. A state's successors are every step that anybody
could take next. What goes wrong costs a fault of the state's budget; a time-out is free where something real is behind
it. Whoever walks (:mod:`support.rendezvous_explorer`) sees every interleaving, or one at random.

Reads are never atomic with writes: a process acts on the record as it last saw it, and a write over an older record
comes to nothing. So a reply that is lost, and a crash between any two steps, are among the interleavings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elasticjob_rendezvous.round import agent, changing, lease
from elasticjob_rendezvous.round.record import Member, Phase, Record
from support import rendezvous_invariants as invariants
from support import rendezvous_processes as processes
from support.rendezvous_operator import Operator
from support.rendezvous_states import (
    ALIVE,
    CUT,
    DONE,
    FAILED,
    FENCED,
    HELD,
    NOTHING,
    PRESENT,
    REACHED,
    TRAINING,
    UNBORN,
    VANISHED,
    WAITING,
    Past,
    Proc,
    Shape,
    State,
    Step,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class World:
    """The transition system of one shape."""

    LONG = 1e9
    """Seconds: every stagger, last call and limit is over."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.kinds = tuple(sorted(shape.faults))
        self._kind = {kind: place for place, kind in enumerate(self.kinds)}
        self.me = tuple(
            agent.Process("job", slot, f"{i + 1:08x}", pod, shape.low, shape.high, shape.planned)
            for i, (slot, pod) in enumerate(shape.pods)
        )
        self.members = tuple(Member(me.slot, me.nonce) for me in self.me)
        self.of = {me.nonce: i for i, me in enumerate(self.me)}
        self.within = [[i for i, me in enumerate(self.me) if me.slot == slot] for slot in range(shape.slots)]
        self.records: list[Record] = []
        self.leases: list[lease.SlotLease] = []
        self._ids: dict[object, int] = {}
        self.decided: dict[object, agent.Action] = {}
        self._seen: dict[object, dict[int, agent.Sighting]] = {}
        self._operator = Operator(self)

    # Values and their places

    def record_id(self, record: Record) -> int:
        found = self._ids.get(record)
        if found is None:
            found = self._ids[record] = len(self.records)
            self.records.append(record)
        return found

    def lease_id(self, value: lease.SlotLease) -> int:
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self.leases)
            self.leases.append(value)
        return found

    def initial(self) -> State:
        shape = self.shape
        free = [self.lease_id(lease.SlotLease(slot)) for slot in range(shape.slots)]
        budget = tuple(shape.faults[kind] for kind in self.kinds)
        plan = range(shape.wanted) if shape.planned else range(shape.slots)
        first = [next(i for i, me in enumerate(self.me) if me.slot == slot) for slot in plan]
        opened = changing.started("job", plan if shape.planned else ())
        if shape.planned:
            opened = changing.bounded(opened, min_nodes=shape.low, sizes=())
        procs = [Proc()] * len(self.me)
        past = Past(top=1)
        if shape.trained or shape.sealed:
            record = self.record_id(
                changing.sealed(opened, [self.members[i] for i in first], processes.store(self.me[first[0]]))
            )
            for i in first:
                free[self.me[i].slot] = self.lease_id(processes.arrived(self.me[i], 1, 1))
                api = CUT if self.me[i].slot in shape.away else REACHED
                state, number = (TRAINING, 1) if shape.trained else (WAITING, 0)
                procs[i] = Proc(state, number, record, free[self.me[i].slot], api, flags=HELD)
            past = Past(1, ((1, record),), claims=((1, tuple(first), True),) if shape.trained else ())
        else:
            record = self.record_id(opened) if shape.planned else NOTHING
            for i in first:
                procs[i] = Proc(WAITING)
        return State(record, tuple(free), tuple(procs), shape.wanted, budget, past=past)

    # What may happen next

    def steps(self, at: State) -> Iterator[Step]:
        """Every step that may come next. Faults: what is named in ``costs=``."""
        if self.frontier(at):
            return
        for i, proc in enumerate(at.procs):
            if proc.state in ALIVE:
                yield from processes.steps(processes.Turn(self, at, i, proc))
        if self.shape.planned:
            yield from self._operator.steps(at)
        else:
            yield from self._births(at)
        if at.record != NOTHING and self.records[at.record].phase is not Phase.CLOSED:
            yield from self.step(at, "somebody", "deletes the ConfigMap", costs="delete", record=NOTHING)

    def frontier(self, at: State) -> bool:
        """Whether nobody looks any further."""
        return bool(self.shape.rounds) and at.past.top >= self.shape.rounds

    def step(
        self, at: State, who: str, what: str, *, costs: str = "", fair: bool = True, i: int = NOTHING,
        proc: Proc | None = None, record: int | None = None, slot: int = NOTHING, found: int = NOTHING, **fields: Any,
    ) -> Iterator[Step]:  # fmt: skip
        """The step, if its fault may still happen, and if it changes anything."""
        if costs:
            if not self.may(at, costs):
                return
            kind = self.kinds.index(costs)
            fields["budget"] = (*at.budget[:kind], at.budget[kind] - 1, *at.budget[kind + 1 :])
            fair = False
        if proc is not None:
            fields["procs"] = (*at.procs[:i], proc, *at.procs[i + 1 :])
        if slot != NOTHING:
            fields["leases"] = (*at.leases[:slot], found, *at.leases[slot + 1 :])
        if record is not None and record != at.record:
            fields["record"] = record
            fields["past"] = invariants.after_write(self, at, record, fields.get("past", at.past))
        new = at._replace(**fields)
        if new != at:
            yield Step(who, what, fair, self._plain(new))

    def _plain(self, at: State) -> State:
        """The state without what nobody can tell any more: equal futures are one state."""
        record = self.records[at.record] if at.record != NOTHING else None
        fields: dict[str, object] = {}
        if at.pinned is not None and at.pinned[0] == NOTHING and at.pinned[1] != at.record:
            fields["pinned"] = None  # the operator's write would lose: it reads again
        procs = tuple(map(self._plainly, at.procs))
        if procs != at.procs:
            fields["procs"] = procs
        used = {p.round for p in procs if p.state in PRESENT}
        used.update(self.records[p.view].sealed for p in procs if p.state == WAITING and p.view != NOTHING)
        past = at.past
        sealed = tuple(one for one in past.sealed if one[0] in used or (record and one[0] == record.sealed))
        numbers = {number for number, _ in sealed}
        claims = tuple(one for one in past.claims if one[0] in numbers and self.hosts(at, one[0]))
        finished = frozenset(one for one in past.finished if one[0] in numbers)
        done = max((n for n, r in past.sealed if invariants.finished(self, past, n, r)), default=past.done)
        if (sealed, done, claims, finished) != (past.sealed, past.done, past.claims, past.finished):
            fields["past"] = Past(past.top, sealed, done, finished, claims)
        return at._replace(**fields) if fields else at  # type: ignore[arg-type]

    def _plainly(self, p: Proc) -> Proc:
        if p.state not in ALIVE or p.view == NOTHING:
            return p
        view = self.records[p.view]
        stale_round = p.state == WAITING and p.round and p.round < view.sealed
        stale_left = p.left and p.left < view.number
        if not (stale_round or stale_left):
            return p
        return p._replace(round=0 if stale_round else p.round, left=0 if stale_left else p.left)

    def hosts(self, at: State, number: int) -> bool:
        """Whether a round's store is there: rank 0's process has arrived for this round, and for no later one."""
        i = self.of[self.sealed(at, number).members[0].nonce]
        first = at.procs[i]
        if first.state in PRESENT:
            return first.round == number
        owns = [self.leases[one] for one in {first.own, at.leases[self.me[i].slot]} if one != NOTHING]
        return first.state == WAITING and any(o.nonce == self.me[i].nonce and o.arrived == number for o in owns)

    def store(self, member: Member) -> str:
        """The address of a process's own store."""
        return processes.store(self.me[self.of[member.nonce]])

    def may(self, at: State, kind: str) -> bool:
        """Whether a fault of this kind may still happen."""
        place = self._kind.get(kind)
        return place is not None and at.budget[place] > 0

    def name(self, i: int) -> str:
        return f"p{i}@{self.me[i].slot}"

    def sightings(self, found: tuple[int, ...], procs: tuple[Proc, ...]) -> dict[int, agent.Sighting]:
        """All Leases as somebody sees them who has looked on for long."""
        dead = tuple(self.dead(procs, one) for one in found)
        seen = self._seen.get((found, dead))
        if seen is None:
            both = zip(found, dead, strict=True)
            seen = self._seen[found, dead] = {s: self.sighting(*one) for s, one in enumerate(both)}
        return seen

    def sighting(self, found: int, dead: bool) -> agent.Sighting:  # noqa: FBT001 - a pair's second
        return agent.Sighting(self.leases[found], still=self.LONG if dead else 0.0, limit=1.0)

    def dead(self, procs: tuple[Proc, ...], found: int) -> bool:
        """Whether a Lease stands still for longer than its limit: its holder has ended, or has fenced itself.

        A free one does if nobody is there to take it.
        """
        one = self.leases[found]
        holder = self.of.get(one.nonce)
        if holder is None:
            return not any(procs[i].state in ALIVE and procs[i].api == REACHED for i in self.within[one.slot])
        proc = procs[holder]
        stopped = proc.state in (WAITING, DONE) or (proc.state == TRAINING and "fence" in self.shape.deviations)
        return proc.state not in ALIVE or (proc.api == FENCED and (stopped or "late" in self.shape.deviations))

    def sealed(self, at: State, number: int) -> Record:
        """The record that sealed a round."""
        return self.records[next(record for n, record in at.past.sealed if n == number)]

    # Standalone: whoever restarts pods

    def _births(self, at: State) -> Iterator[Step]:
        for slot in range(self.shape.slots):
            mine = [i for i, me in enumerate(self.me) if me.slot == slot]
            born = [i for i in mine if at.procs[i].state != UNBORN]
            nexts = [i for i in mine if at.procs[i].state == UNBORN]
            if not nexts:
                continue
            last = at.procs[born[-1]] if born else None
            if last is None or last.state in (FAILED, VANISHED):
                yield from self.step(at, self.name(nexts[0]), "starts", i=nexts[0], proc=Proc(WAITING))
            elif last.state in ALIVE and last.api != REACHED and self.me[born[-1]].pod != self.me[nexts[0]].pod:
                yield from self.step(
                    at,
                    self.name(nexts[0]),
                    "replaces a process out of reach",
                    costs="zombie",
                    i=nexts[0],
                    proc=Proc(WAITING),
                )
