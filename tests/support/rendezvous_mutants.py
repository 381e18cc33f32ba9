"""Seeded faults: for each rule of the protocol a small change that breaks it, and a world in which that must show.

A fault is a patch of one of the project's own functions or, where a rule lives in the I/O around them, a deviation of
the world (:attr:`support.rendezvous_states.Shape.deviations`). Nothing of this is in the product.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from elasticjob_operator.core import closing, recreating, reforming, releasing, resizing, rounds
from elasticjob_rendezvous.round import agent, changing, lease
from elasticjob_rendezvous.round.record import Member, Phase, Reason, Record, Result
from support.rendezvous_shapes import IN_PLACE, ONE, REPLACED, THREE, TWO, a_job

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from elasticjob_operator.core.situation import Step
    from support.rendezvous_states import Shape

Patch = tuple[Any, str, Any]


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A rule (its number in ``docs/architecture.md``), what is wrong with it, and where that shows."""

    rule: int
    what: str
    shape: Shape
    patches: tuple[Patch, ...] = ()


def _mutant(rule: int, what: str, shape: Shape, *patches: Patch, deviates: str = "") -> Mutant:
    return Mutant(rule, what, dataclasses.replace(shape, deviations=frozenset(deviates.split())), patches)


_decide, _arrived, _holding, _judged = agent.decide, agent.arrived, agent._holding, agent.judged


@dataclasses.dataclass(frozen=True, eq=False)
class _BySlot(Member):
    """A member that is taken for whatever process is in its slot."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Member) and other.slot == self.slot

    def __hash__(self) -> int:
        return hash(self.slot)


def _overtakes(at: agent.Situation, record: Record, own: Any) -> agent.Action:
    was = {m.slot: m.nonce for m in record.members}.get(at.me.slot, at.me.nonce)
    if record.phase is Phase.OPEN and was != at.me.nonce:
        new = dataclasses.replace(record, number=record.number + 1, reason=at.why)
        return agent.Write(new, f"opens round {new.number} over an open one")
    return _holding(at, record, own)


def _with_suspects(me: agent.Process, record: Record, leases: Mapping[int, agent.Sighting]) -> Any:
    return _arrived(me, dataclasses.replace(record, suspects=frozenset()), leases)


def _with_anybody(me: agent.Process, record: Record, leases: Mapping[int, agent.Sighting]) -> Any:
    return _arrived(dataclasses.replace(me, planned=False), record, leases)


def _with_the_parked(me: agent.Process, record: Record, leases: Mapping[int, agent.Sighting]) -> Any:
    early = {
        s: dataclasses.replace(v, lease=dataclasses.replace(v.lease, arrived=record.number)) for s, v in leases.items()
    }
    return _arrived(me, record, early)


def _suspects_end(at: agent.Situation) -> agent.Action:
    r = at.record
    if r is not None and (at.me.slot in r.absent or at.me.nonce in r.suspects):
        return agent.Leave(0, "is not wanted any more")
    return _decide(at)


def _no_request(at: agent.Situation, record: Record, own: Any) -> agent.Action:
    action = _holding(at, record, own)
    restarted = isinstance(action, agent.Write) and action.record.reason is Reason.AGENT_RESTARTED
    return agent.Wait() if restarted else action


def _enters_again(at: agent.Situation) -> agent.Action:
    return _decide(dataclasses.replace(at, left=0))


def _anyone(record: Record, me: agent.Process, silent: Collection[Member]) -> set[Member]:
    return {m for m in silent if m in record.members} - {Member(me.slot, me.nonce)}


def _finish_is_silence(record: Record, me: agent.Process, silent: Collection[Member], leases: Any) -> Any:
    return _judged(record, me, silent, {})


def _takes(own: agent.Sighting, me: agent.Process, record: Record | None) -> bool:
    return own.dead or own.lease.pod == me.pod


def _any_finish(me: agent.Process, record: Record, leases: Any) -> agent.Write | None:
    if record.phase in (Phase.SEALED, Phase.FINISHING):
        return agent.Write(changing.closed(record, Result.SUCCEEDED), "closes: it has finished")
    return None


def _first_again(observed: Any, spec: Any) -> Record:
    return changing.bounded(changing.started(observed.job.uid, {0, 1}), min_nodes=spec.min_nodes, sizes=())


def _refused_are_dead(at: agent.Situation) -> agent.Action:
    leases = {
        slot: dataclasses.replace(seen, still=2 * seen.limit, lease=lease.SlotLease(slot))
        if seen.lease.nonce in at.gone
        else seen
        for slot, seen in (at.leases or {}).items()
    }
    return _decide(dataclasses.replace(at, leases=None if at.leases is None else leases))


def _stays_planned(me: agent.Process, record: Record) -> Record | None:
    return agent.opened(record, Reason.AGENT_LEFT, planned=me.planned) if record.phase is Phase.SEALED else None


def _resizes_the_finishing(situation: Any) -> Step | None:
    sealed = dataclasses.replace(situation.record, phase=Phase.SEALED)
    return _resize(dataclasses.replace(situation, record=sealed)) if situation.record.running else None


_resize = resizing.step


def _policies(old: Any, new: Any) -> Patch:
    return (rounds, "POLICIES", tuple(new if policy is old else policy for policy in rounds.POLICIES))


_AWAY = frozenset({0})
_ALL_AWAY = frozenset({0, 1})

MUTANTS = (
    _mutant(
        1, "an open round is overtaken by the next", a_job(REPLACED, 1, 2, 2, crash=1), (agent, "_holding", _overtakes)
    ),
    _mutant(1, "a write does not compare", a_job(TWO, 1, 2, 2, fail=2), deviates="compare"),
    _mutant(
        1,
        "a lost record starts again with round 1",
        a_job(TWO, 1, 2, 2, delete=1, fail=1),
        (recreating, "record", _first_again),
    ),
    _mutant(
        2,
        "a round is sealed without who is awaited",
        a_job(TWO, 1, 2, 2, trained=False),
        (agent, "_awaited", lambda *_: set()),
    ),
    _mutant(
        2,
        "who refuses a connection is taken for dead",
        a_job(THREE, 1, 3, 2, refuse=2, plan=1),
        (agent, "decide", _refused_are_dead),
    ),
    _mutant(
        2, "a round is sealed below the minimum", a_job(REPLACED, 2, 2, 2, crash=1), (agent, "least", lambda *_: 1)
    ),
    _mutant(2, "a suspect is sealed as a member", a_job(THREE, 1, 3, 3, suspect=1), (agent, "arrived", _with_suspects)),
    _mutant(
        2,
        "who is not in the plan is sealed",
        a_job(TWO, 1, 2, 2, trained=False, plan=1),
        (agent, "arrived", _with_anybody),
    ),
    _mutant(
        2,
        "who has arrived for another round is sealed",
        a_job(TWO, 1, 2, 2, fail=1),
        (agent, "arrived", _with_the_parked),
    ),
    _mutant(
        2, "suspects are never forgiven", a_job(TWO, 2, 2, 2, suspect=1), (agent, "_without_suspects", lambda *_: 99)
    ),
    _mutant(
        2,
        "slots of the dead are never given up",
        a_job(TWO, 1, 2, 2, trained=False, crash=1, operator_down=True),
        (agent, "_given_up", lambda *_: set()),
    ),
    _mutant(
        3,
        "a fresh process in a member's slot asks for nothing",
        a_job(((0, "a"), (0, "a")), 1, 1, 1, crash=1),
        (agent, "_holding", _no_request),
    ),
    _mutant(3, "who has left a round enters it again", a_job(TWO, 1, 2, 2, fail=1), (agent, "decide", _enters_again)),
    _mutant(
        4,
        "newcomers do not park for the next round",
        a_job(THREE, 1, 3, 2, plan=1),
        (agent, "_target", lambda record: record.number),
    ),
    _mutant(
        4,
        "a round is opened before its newcomers wait",
        a_job(THREE, 1, 3, 2, plan=1),
        (resizing, "_newcomers_due", lambda s: bool(s.target - s.record.member_slots)),
    ),
    _mutant(5, "rank 0 says go before all have checked in", a_job(TWO, 1, 2, 2, trained=False), deviates="go"),
    _mutant(
        3,
        "a member is whoever is in its slot, and checks in as such",
        a_job(REPLACED, 1, 2, 2, trained=False, crash=1),
        (agent, "_member", lambda me: _BySlot(me.slot, me.nonce)),
        deviates="claims",
    ),
    _mutant(
        6, "a finish is not recorded before the exit barrier", a_job(REPLACED, 1, 2, 2, finish=1), deviates="finish"
    ),
    _mutant(
        6,
        "a finish that counts is overwritten",
        a_job(IN_PLACE, 1, 2, 0, finish=1, crash=1),
        (agent, "may_take", _takes),
    ),
    _mutant(
        6,
        "a finish that counts is freed with its slot",
        a_job(ONE, 1, 1, 1, finish=1, crash=1),
        (releasing, "_kept", lambda *_: lambda _lease: False),
    ),
    _mutant(
        6,
        "a round that is finishing is resized",
        a_job(THREE, 1, 3, 2, finish=1, plan=1),
        _policies(resizing.step, _resizes_the_finishing),
    ),
    _mutant(
        6,
        "nobody says that the round is finishing",
        a_job(TWO, 1, 2, 0, finish=1),
        (agent, "after_finish", lambda *_: None),
    ),
    _mutant(
        7, "workers go on when their round is gone", a_job(TWO, 1, 2, 2, fail=1), (agent, "over", lambda *_: False)
    ),
    _mutant(7, "workers go on without the API", a_job(ONE, 1, 1, 0, zombie=1, away=_AWAY), deviates="fence"),
    _mutant(
        7,
        "who is fenced checks in",
        a_job(ONE, 1, 1, 0, trained=False, sealed=True, zombie=1, away=_AWAY),
        deviates="late",
    ),
    _mutant(
        7,
        "a slot is taken at once from whoever holds it",
        a_job(ONE, 1, 1, 0, zombie=1, away=_AWAY),
        (agent, "may_take", lambda *_: True),
    ),
    _mutant(
        7,
        "a round is sealed without a witness",
        a_job(THREE, 1, 3, 2, plan=1, slow=1, away=_ALL_AWAY),
        (agent, "witnessed", lambda *_: True),
    ),
    _mutant(
        7, "a slot is freed although its process may live", a_job(ONE, 1, 1, 1, zombie=1, away=_AWAY), deviates="force"
    ),
    _mutant(
        7,
        "whoever hears nobody accuses anybody",
        a_job(THREE, 1, 3, 3, link=1, rounds=4),
        (agent, "suspected", _anyone),
    ),
    _mutant(8, "the first that finishes closes", a_job(TWO, 1, 2, 2, finish=1), (agent, "after_finish", _any_finish)),
    _mutant(
        8,
        "the operator closes when any has finished",
        a_job(TWO, 1, 2, 2, finish=1),
        (closing, "_succeeded", lambda s: bool(s.observed.finished(s.record))),
    ),
    _mutant(8, "who is not awaited ends with 0", a_job(THREE, 1, 3, 3, suspect=1), (agent, "decide", _suspects_end)),
    _mutant(
        8,
        "the operator opens no round for the lost",
        a_job(TWO, 1, 2, 2, finish=1, fail=1),
        _policies(reforming.step, lambda *_: None),
    ),
    _mutant(
        9,
        "who leaves stays in the plan it leaves",
        a_job(REPLACED, 1, 2, 2, leave=1),
        (agent, "without", _stays_planned),
    ),
    _mutant(
        9,
        "who leaves frees its slot before its workers have stopped",
        a_job(REPLACED, 1, 2, 2, leave=1, slow=1, away=frozenset({1})),
        deviates="early",
    ),
)

REDUNDANT = (
    _mutant(
        3,
        "a member is whoever is in its slot: the check-in still asks which process it is",
        a_job(REPLACED, 1, 2, 2, trained=False, crash=1),
        (agent, "_member", lambda me: _BySlot(me.slot, me.nonce)),
    ),
    _mutant(
        5,
        "the check-in takes any process: only members' processes come to it",
        a_job(TWO, 1, 2, 2, trained=False, fail=1),
        deviates="claims",
    ),
    _mutant(
        6,
        "silent because finished is a fault: the finish is recorded, so only work that was not done runs again",
        a_job(IN_PLACE, 1, 2, 0, finish=1, crash=1),
        (agent, "judged", _finish_is_silence),
    ),
    _mutant(
        7,
        "a slot once lost is taken back: by then its holder is dead, as for any other taker",
        a_job(REPLACED, 1, 2, 0, cut=1, zombie=1),
        (agent, "decide", lambda at: _decide(dataclasses.replace(at, held=False))),
    ),
    _mutant(
        2,
        "who falls silent in an open round is not suspected: a Lease that stands still says the same, later",
        a_job(TWO, 1, 2, 2, fail=1, crash=1),
        (agent, "_also_silent", lambda *_: set()),
    ),
)
"""Faults that break nothing as long as the rest is right, and why: each is a second lock, or only costs time."""
