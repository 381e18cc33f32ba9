"""A small world of agents and an operator that drives the project's own protocol functions in any order.

No copy of the protocol: what an agent does is what ``round/agent.py`` says, carried out here on objects in memory.
What the world adds is all that can go wrong between two steps: crashes, restarts in place, pods replaced beside an
unreachable one, stale views, stale lists, lost replies, false suspicions, plan changes, an API that is out of reach. A
time-out is a free step where something real is behind it, else it costs a fault. Invariants are checked each time.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from elasticjob_rendezvous.round import agent, changing, lease
from elasticjob_rendezvous.round.record import Member, Phase, Reason, Record, Result
from support import rendezvous_invariants, rendezvous_operator
from support.rendezvous_invariants import CHECKING, DONE, TRAINING, BrokenError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

WAITING, ENDED, FAILED, CRASHED = "waiting", "ended", "failed", "crashed"
ALIVE = (WAITING, CHECKING, TRAINING, DONE)
_LEARNING = (" sees ", " lists ", " reads ")
LONG = 1e9
"""Seconds: every stagger, last call and limit is over."""


@dataclasses.dataclass
class Proc:
    """One process of one slot, with what it knows."""

    slot: int
    pod: str
    nonce: str
    state: str = WAITING
    round: int = 0
    api: bool = True
    held: bool = False
    left: int = 0
    view: Record | None = None
    own: tuple[int, lease.SlotLease] | None = None
    leases: dict[int, agent.Sighting] | None = None
    lost: bool = False
    recorded: bool = False

    @property
    def alive(self) -> bool:
        return self.state in ALIVE

    @property
    def member(self) -> Member:
        return Member(self.slot, self.nonce)


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a world is made of, and how much may go wrong in it."""

    slots: int
    low: int
    high: int
    plan: frozenset[int] = frozenset()
    faults: int = 3
    planned: bool = True
    kinds: tuple[str, ...] = ("crash", "cut", "lost", "suspect", "fail", "finish", "plan", "zombie", "delete")


class World:
    """The objects, the processes, and what was once true."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.faults = shape.faults
        self.record: Record | None = changing.started("job", shape.plan) if shape.planned else None
        self.leases = {slot: (0, lease.SlotLease(slot)) for slot in range(shape.slots)}
        self.procs: list[Proc] = []
        self.sealed: dict[int, tuple[Member, ...]] = {}
        self.claims: dict[int, set[Member]] = {}
        self.gone: dict[int, bool] = {}
        self.finished: set[tuple[int, str]] = set()
        self.top = 0
        self.log: list[str] = []
        for slot in sorted(shape.plan) if shape.planned else range(shape.slots):
            self.born(slot, f"pod-{slot}")

    # Objects

    def born(self, slot: int, pod: str) -> None:
        self.procs.append(Proc(slot, pod, f"{len(self.procs):08x}"))

    def write(self, proc: Proc | None, over: Record | None, new: Record) -> bool:
        """Compare-and-set of the record, by identity: a view that is not the present record loses."""
        if over is not self.record:
            return False
        if new.number < self.top:
            raise BrokenError(f"the round number went back: {new.number} after {self.top}")
        if new.phase is Phase.SEALED and (over is None or over.phase is not Phase.SEALED):
            if new.number in self.sealed:
                raise BrokenError(f"a second membership for round {new.number}")
            if not self.shape.low <= len(new.members) <= self.shape.high:
                raise BrokenError(f"a world of {len(new.members)}")
            self.sealed[new.number] = new.members
        if new.phase is Phase.CLOSED and new.result is Result.SUCCEEDED:
            for m in new.members:
                wanted = not self.shape.planned or m.slot in new.plan
                if wanted and (new.sealed, m.nonce) not in self.finished:
                    raise BrokenError(f"closed as a success before {m} had finished")
        self.record, self.top = new, max(self.top, new.number)
        if proc is not None:
            proc.view = new
        return True

    def put(self, proc: Proc, new: lease.SlotLease) -> bool:
        """Compare-and-set of a Lease."""
        version, _ = self.leases[new.slot]
        if proc.own is None or proc.own[0] != version:
            self.read_own(proc)
            return False
        self.leases[new.slot] = (version + 1, new)
        proc.own = self.leases[new.slot]
        proc.held = proc.held or new.nonce == proc.nonce
        return True

    def read_own(self, proc: Proc) -> None:
        proc.own = self.leases[proc.slot]
        mine = proc.own[1].nonce == proc.nonce
        proc.held = proc.held or mine
        proc.lost = proc.held and not mine

    def holder(self, slot: int) -> Proc | None:
        nonce = self.leases[slot][1].nonce
        return next((p for p in self.procs if p.nonce == nonce), None)

    def dead(self, proc: Proc) -> bool:
        """What a Lease that stood still for longer than its limit says of its holder: dead, or it has fenced itself."""
        return not proc.alive or (not proc.api and proc.state == WAITING)

    def sighting(self, found: lease.SlotLease) -> agent.Sighting:
        holder = self.holder(found.slot)
        return agent.Sighting(found, still=LONG if holder is None or self.dead(holder) else 0.0, limit=1.0)

    def sightings(self) -> dict[int, agent.Sighting]:
        return {slot: self.sighting(found) for slot, (_, found) in self.leases.items()}

    # What may happen next

    def events(self) -> list[tuple[str, Callable[[], object], bool]]:
        """Label, effect, and whether it costs a fault."""
        out: list[tuple[str, Callable[[], object], bool]] = []
        for p in self.procs:
            if p.alive:
                self._of(p, out)
        for slot in range(self.shape.slots):
            self._of_slot(slot, out)
        if self.shape.planned:
            over = self.record
            for what, new, costs in rendezvous_operator.steps(self):
                out.append((f"operator: {what}", lambda new=new: self.write(None, over, new), costs))  # type: ignore[misc]
        if self.record is not None and self.may("delete"):
            out.append(("the ConfigMap is deleted", lambda: setattr(self, "record", None), True))
        return out

    def may(self, kind: str) -> bool:
        return self.faults > 0 and kind in self.shape.kinds

    def _of(self, p: Proc, out: list[tuple[str, Callable[[], object], bool]]) -> None:
        name = f"{p.nonce[-2:]}@{p.slot}"
        if self.may("crash"):
            out.append((f"{name} crashes", lambda: self._end(p, CRASHED), True))
        if not p.api:
            out.append((f"{name} has the API again", lambda: setattr(p, "api", True), False))
            if p.state == TRAINING:
                out.append((f"{name} fences itself", lambda: self._stop(p, left=True), False))
        elif self.may("cut"):
            out.append((f"{name} loses the API", lambda: setattr(p, "api", False), True))
        if p.api:
            fresh = self.record is not p.view and self.record is not None
            if fresh and (p.view is None or self.record.number >= p.view.number):  # type: ignore[union-attr]
                out.append((f"{name} sees the record", lambda: setattr(p, "view", self.record), False))
            if p.own != self.leases[p.slot]:
                out.append((f"{name} reads its Lease", lambda: self.read_own(p), False))
            if p.leases != self.sightings():
                out.append((f"{name} lists the Leases", lambda: setattr(p, "leases", self.sightings()), False))
        getattr(self, f"_{p.state}")(p, name, out)

    def _waiting(self, p: Proc, name: str, out: list[tuple[str, Callable[[], object], bool]]) -> None:
        if not p.api:
            return
        action = self.decide(p)
        if not isinstance(action, agent.Wait):
            out.append((f"{name}: {_short(action)}", lambda: self._act(p), False))
            if isinstance(action, agent.Arrive | agent.Write) and self.may("lost"):
                out.append((f"{name}: {_short(action)}, reply lost", lambda: self._act(p, lost=True), True))

    def _checking(self, p: Proc, name: str, out: list[tuple[str, Callable[[], object], bool]]) -> None:
        number, members = p.round, self.sealed[p.round]
        self.claims.setdefault(number, set()).add(p.member)
        there = {m for m in members if self._there(m, number)}
        missing = [m for m in members if m not in there and not self._coming(m, number)]
        if p.member == members[0]:
            if there == set(members) and number not in self.gone:
                out.append((f"{name} says go for {number}", lambda: self._go(p), False))
            self._accusing(p, name, missing, out)
        else:
            if number in self.gone and members[0] in there:
                out.append((f"{name} trains in {number}", lambda: setattr(p, "state", TRAINING), False))
            self._accusing(p, name, [m for m in missing if m == members[0]], out)
        if p.view is not None and (p.view.number != number or not p.view.running):
            out.append((f"{name} leaves the check-in", lambda: setattr(p, "state", WAITING), False))

    def _training(self, p: Proc, name: str, out: list[tuple[str, Callable[[], object], bool]]) -> None:
        number, members = p.round, self.sealed[p.round]
        if p.lost or (p.view is not None and agent.over(p.view, self.me(p), number)):
            out.append((f"{name} stops its workers", lambda: self._stop(p), False))
        if self.may("fail"):
            out.append((f"{name}: workers fail", lambda: self._stop(p, left=True), True))
        others = [q for q in self.procs if q.member in members and q is not p]
        with_me = all(
            (q.round == number and q.state in (TRAINING, DONE)) or (number, q.nonce) in self.finished for q in others
        )
        if with_me:
            some = any(q.state == DONE or (number, q.nonce) in self.finished for q in others)
            if some or self.may("finish"):
                out.append((f"{name} finishes {number}", lambda: setattr(p, "state", DONE), not some))
        heard = members[1:] if p.member == members[0] else members[:1]
        lost = [m for m in heard if not self._there(m, number)]
        self._accusing(p, name, lost, out)
        if not self.shape.planned and p.member == members[0] and p.api and p.view is self.record and p.leases:
            view = p.view
            if view and view.number == number and agent.newcomers(view, p.leases, self.me(p)):
                new = agent.opened(view, Reason.NODE_JOINED, planned=False)
                out.append((f"{name} opens {new.number} for newcomers", lambda: self.write(p, view, new), False))

    def _done(self, p: Proc, name: str, out: list[tuple[str, Callable[[], object], bool]]) -> None:
        if not p.api:
            return
        if not p.recorded and not p.lost:
            out.append((f"{name} records its finish", lambda: self._record_finish(p), False))
            return
        view, number = p.view, p.round
        if view is not None and view.phase is Phase.SEALED and view.number == number and not p.lost:
            out.append((f"{name} marks Finishing", lambda: self.write(p, view, changing.finishing(view)), False))
        if not self.shape.planned and view is not None and view.number == number and p.leases and not p.lost:
            end = agent.ending(self.me(p), view, p.leases)
            if end is not None:
                out.append((f"{name} {end.what}", lambda: self.write(p, view, end.record), False))
        if p.lost or (view is not None and (view.phase in (Phase.FINISHING, Phase.CLOSED) or view.number > number)):
            out.append((f"{name} ends with 0", lambda: self._end(p, ENDED), False))

    def _accusing(
        self, p: Proc, name: str, lost: list[Member], out: list[tuple[str, Callable[[], object], bool]]
    ) -> None:
        view = p.view
        if not p.api or view is None or view.number != p.round:
            return
        members = self.sealed[p.round]
        wrongly = [] if lost else list(members[1:] if p.member == members[0] else members[:1])
        for silent, costs in ((lost, False), *(([m], True) for m in wrongly)):
            if silent and (not costs or self.may("suspect")):
                verdict = agent.judged(view, self.me(p), silent, self.sightings())
                if verdict is not None:
                    new = verdict.record
                    out.append((f"{name} {verdict.what}", lambda new=new: self.write(p, view, new), costs))  # type: ignore[misc]

    def _of_slot(self, slot: int, out: list[tuple[str, Callable[[], object], bool]]) -> None:
        """Kubelet, Job controller, and whoever releases the Leases of the dead."""
        mine = [p for p in self.procs if p.slot == slot]
        last = mine[-1] if mine else None
        record = self.record
        wanted = record is not None and record.phase in (Phase.OPEN, Phase.SEALED)
        wanted = wanted and (not self.shape.planned or slot in record.plan)  # type: ignore[union-attr]
        version, found = self.leases[slot]
        holder = self.holder(slot)
        if wanted and len(self.procs) < self.shape.slots + self.shape.faults + 3:
            if last is None:
                out.append((f"slot {slot} starts", lambda: self.born(slot, f"pod-{slot}"), False))
            elif not last.alive and (last.round, last.nonce) not in self.finished:
                pod = f"pod-{slot}-{len(self.procs)}" if last.state != CRASHED else last.pod
                out.append((f"slot {slot} starts again", lambda: self.born(slot, pod), not self.shape.planned))
            elif not last.api and self.may("zombie"):
                out.append((f"slot {slot} is replaced", lambda: self.born(slot, f"pod-{slot}-{len(self.procs)}"), True))
        counts = record is None or agent.unknown(record) or record.sealed == found.finished
        replaced = holder is not None and (not holder.alive or any(q.alive and q is not holder for q in mine))
        if self.shape.planned and holder and replaced and self.dead(holder) and not (found.finished and counts):
            free = (version + 1, lease.SlotLease(slot, seen=found.seen))
            out.append((f"Lease {slot} is released", lambda: self.leases.update({slot: free}), False))

    # What happens

    def me(self, p: Proc) -> agent.Process:
        shape = self.shape
        return agent.Process("job", p.slot, p.nonce, p.pod, shape.low, shape.high, shape.planned)

    def decide(self, p: Proc) -> agent.Action:
        return agent.decide(
            agent.Situation(
                me=self.me(p),
                record=p.view,
                own=self.sighting(p.own[1]) if p.own else None,
                held=p.held,
                left=p.left,
                silent=self._silent(p),
                leases=p.leases,
                waited=LONG,
                enough=LONG,
                seen=p.view.number if p.view else 0,
            )
        )

    def _silent(self, p: Proc) -> frozenset[Member]:
        """Members of the last round, as far as this one was in it, whose process is gone."""
        if p.view is None or p.round != p.view.sealed or p.member not in p.view.members:
            return frozenset()
        return frozenset(m for m in p.view.members if not any(q.alive and q.member == m for q in self.procs))

    def _act(self, p: Proc, *, lost: bool = False) -> None:
        action, before = self.decide(p), (p.own, p.view)
        if isinstance(action, agent.Arrive):
            seen = p.own[1].seen if p.own else 0
            new = lease.SlotLease(
                p.slot, p.pod, p.nonce, action.number, f"host-{p.nonce}:1", seen=max(seen, action.number)
            )
            self.put(p, new)
        elif isinstance(action, agent.Write):
            self.write(p, p.view, action.record)
        elif isinstance(action, agent.CheckIn):
            p.state, p.round = CHECKING, action.record.number
        elif isinstance(action, agent.Leave):
            p.view = self.record if self.record is not None else p.view
            self.read_own(p)
            again = self.decide(p)
            if isinstance(again, agent.Leave):
                self._leave(p, again)
        if lost:
            p.own, p.view = before

    def _leave(self, p: Proc, action: agent.Leave) -> None:
        r = self.record
        if action.code == 0 and self.shape.planned and r and r.phase is not Phase.CLOSED and p.slot in r.plan:
            raise BrokenError("a live node that the plan wants ends with 0")
        version, found = self.leases[p.slot]
        if found.nonce == p.nonce:
            self.leases[p.slot] = (version + 1, lease.SlotLease(p.slot, seen=found.seen))
        self._end(p, FAILED if action.code else ENDED)

    def _end(self, p: Proc, state: str) -> None:
        p.state = state

    def _stop(self, p: Proc, *, left: bool = False) -> None:
        r = p.view
        member = r is not None and p.member in r.members and r.sealed == p.round and not p.lost
        succeeded = r is not None and r.phase is Phase.CLOSED and r.result is Result.SUCCEEDED
        if member and succeeded and not left and (not self.shape.planned or (r and p.slot in r.plan)):
            raise BrokenError("a member is stopped by the close of a success")
        p.state = WAITING
        if left:
            p.left = p.round

    def _there(self, m: Member, number: int) -> bool:
        """Whether peers find this member on the round's store."""
        return any(q.member == m and q.round == number and q.state in (CHECKING, TRAINING, DONE) for q in self.procs)

    def _coming(self, m: Member, number: int) -> bool:
        """Whether it will check in: a time-out is longer than that takes."""
        coming = (q for q in self.procs if q.member == m and q.api and q.state == WAITING and q.left != number)
        return any(q.own is not None and q.own[1].arrived == number for q in coming)

    def _go(self, p: Proc) -> None:
        self.gone[p.round] = True
        p.state = TRAINING

    def _record_finish(self, p: Proc) -> None:
        self.read_own(p)
        if p.own is not None and not p.lost and self.put(p, dataclasses.replace(p.own[1], finished=p.round)):
            p.recorded = True
            self.finished.add((p.round, p.nonce))

    def step(self, chance: random.Random, *, fair: bool = False, news: float = 1.0) -> bool:
        """One event. False when nothing can happen any more. *news* weighs learning against doing."""
        events = [e for e in self.events() if not (fair and e[2])]
        if not events:
            return False
        weights = [news if any(word in e[0] for word in _LEARNING) else 1.0 for e in events]
        ((label, effect, costs),) = chance.choices(events, weights)
        self.log.append(label)
        self.faults -= costs
        effect()
        rendezvous_invariants.check(self)
        return True


def _short(action: agent.Action) -> str:
    if isinstance(action, agent.Write):
        return action.what
    if isinstance(action, agent.CheckIn):
        return f"checks in to {action.record.number}"
    if isinstance(action, agent.Arrive):
        return f"{'takes the Lease and ' if action.take else ''}arrives for {action.number}"
    return f"ends: {action.message}" if isinstance(action, agent.Leave) else "waits"
