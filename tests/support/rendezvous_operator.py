"""The operator in :mod:`support.rendezvous_world`: its real policies, asked what they would write at this moment.

It keeps no state of its own, so its restart between any two writes is one of the interleavings. Its clock is either at
the moment of the last change or, for a fault, far beyond every patience.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from elasticjob_operator.api import status
from elasticjob_operator.core import closing, observed, pods, recreating, releasing, rounds
from elasticjob_rendezvous.round import lease
from elasticjob_rendezvous.round.record import Phase, Record
from support import operator_builders as build
from support.rendezvous_states import (
    ALIVE,
    FAILED,
    LEAVING,
    NOTHING,
    ORPHAN,
    REACHED,
    SUCCEEDED,
    UNBORN,
    VANISHED,
    WAITING,
    Proc,
    State,
    Step,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.rendezvous_world import World

SUSPENDED = 0
"""Nodes that a suspended job wants."""

WHO = NOTHING
"""The operator among those who may have an old look."""


class Operator:
    """The operator of one world, and the kubelet that starts what it makes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._answers: dict[object, object] = {}
        self._job = dataclasses.replace(build.a_job(), uid="job")
        shape = world.shape
        self._specs = {
            wanted: build.a_spec(
                minNodes=shape.low,
                maxNodes=shape.high,
                nodes=wanted,
                resizePolicy={"checkpointGraceSeconds": shape.grace},
            )
            for wanted in range(shape.low, shape.high + 1)
        }
        self._specs[SUSPENDED] = dataclasses.replace(self._specs[shape.low], suspend=True)

    def steps(self, at: State) -> Iterator[Step]:
        """What it may do next."""
        world, fair = self.world, not self.world.shape.operator_down
        record = world.records[at.record] if at.record != NOTHING else None
        if record is not None and record.phase is Phase.CLOSED:
            return
        yield from self._pods(at)
        yield from self._wishes(at)
        found, procs = at.leases, at.procs
        if at.pinned is not None and at.pinned[0] == WHO:
            _, _, found, procs = at.pinned
            yield from self._step(at, "reads all again", pinned=None)
        elif at.pinned is None and world.may(at, "stale"):
            yield from self._step(at, "reads all, and is slow", costs="stale", pinned=(WHO, at.record, found, procs))
        for late in (False, True) if world.may(at, "slow") else (False,):
            new = self._written(at, record, found, procs, late=late)
            if new is not None:
                what = f"writes {new.number} {new.phase.value} {new.reason.value}{' after its patience' * late}"
                yield from self._step(
                    at, what, fair=fair, costs="slow" * late, record=world.record_id(new), pinned=None
                )
        for slot, free in self._freed(at, record, found, procs):
            if found[slot] == at.leases[slot]:
                yield from self._step(at, f"frees slot {slot}", fair=fair, slot=slot, found=free)

    def _step(self, at: State, what: str, **fields: object) -> Iterator[Step]:
        return self.world.step(at, "operator", what, **fields)  # type: ignore[arg-type]

    def _pods(self, at: State) -> Iterator[Step]:
        """A pod in every planned slot without a living one.

        None is deleted by force while its process lives: who does that vouches that it is dead, for good. So says
        Kubernetes, and ``core/releasing.py`` relies on it.
        """
        world = self.world
        record = world.records[at.record] if at.record != NOTHING else None
        for slot in range(world.shape.slots):
            mine = [i for i, me in enumerate(world.me) if me.slot == slot]
            live = [i for i in mine if at.procs[i].state in ALIVE and not at.procs[i].flags & (ORPHAN | LEAVING)]
            for i in live:
                if at.procs[i].api != REACHED and "force" in world.shape.deviations:
                    orphan = at.procs[i]._replace(flags=at.procs[i].flags | ORPHAN)
                    yield from self._step(at, f"gives up {world.name(i)}", costs="zombie", i=i, proc=orphan)
            nexts = [i for i in mine if at.procs[i].state == UNBORN]
            found = world.leases[at.leases[slot]]
            member = record is not None and any(m.nonce == found.nonce for m in record.members)
            done = member and record is not None and record.running and found.finished == record.sealed
            if nexts and not live and not done and record is not None and slot in record.plan:
                again = at.procs[nexts[0] - 1].state if nexts[0] and nexts[0] - 1 in mine else ""
                if not (again == SUCCEEDED and record.phase is Phase.FINISHING):
                    yield from self.world.step(
                        at, world.name(nexts[0]), "starts", i=nexts[0], proc=Proc(WAITING),
                        fair=not world.shape.operator_down,
                    )  # fmt: skip

    def _wishes(self, at: State) -> Iterator[Step]:
        for wanted in () if not self.world.may(at, "plan") else (at.wanted - 1, at.wanted + 1):
            if self.world.shape.low <= wanted <= self.world.shape.high:
                yield from self.world.step(at, "somebody", f"scales to {wanted}", costs="plan", wanted=wanted)
        if at.wanted == SUSPENDED:
            yield from self.world.step(at, "somebody", "resumes", wanted=self.world.shape.wanted)
        elif self.world.may(at, "suspend"):
            yield from self.world.step(at, "somebody", "suspends", costs="suspend", wanted=SUSPENDED)

    # The real policies, asked once for each situation

    def _written(
        self, at: State, record: Record | None, found: tuple[int, ...], procs: tuple[Proc, ...], *, late: bool
    ) -> Record | None:
        key = ("write", at.record, found, _key(procs), at.wanted, late)
        if key not in self._answers:
            seen = self._observed(at, record, found, procs, late=late)
            self._answers[key] = self._next(seen, record)
        answer = self._answers[key]
        return answer if isinstance(answer, Record) else None

    def _next(self, seen: observed.Observed, record: Record | None) -> Record | None:
        spec = seen.job.spec
        if isinstance(spec, str):
            raise TypeError(spec)
        if record is None:
            return recreating.record(seen, spec)
        now = build.at(seen)
        verdict = closing.failed(now)
        if verdict is not None:  # in the status first: a step of its own, which nobody else takes part in
            known = dataclasses.replace(seen.job.status, end_reason=verdict.reason)
            now = build.at(dataclasses.replace(seen, job=dataclasses.replace(seen.job, status=known)))
        return rounds.step(now).record

    def _freed(
        self, at: State, record: Record | None, found: tuple[int, ...], procs: tuple[Proc, ...]
    ) -> tuple[tuple[int, int], ...]:
        key = ("free", at.record, found, _key(procs))
        if key not in self._answers:
            seen = self._observed(at, record, found, procs, late=False)
            self._answers[key] = tuple(
                (action.lease.slot, self.world.lease_id(lease.freed(action.lease)))
                for action in releasing.releases(seen, record, frozenset())
            )
        return self._answers[key]  # type: ignore[return-value]

    def _observed(
        self, at: State, record: Record | None, found: tuple[int, ...], procs: tuple[Proc, ...], *, late: bool
    ) -> observed.Observed:
        world = self.world
        since = build.NOW - (100_000 if late else 0)
        known = status.Status(
            round=record.number if record else 0,
            round_phase=record.phase.value if record else "",
            round_time=since,
            waiting_since=since,
            notice_time=since,
            planned=len(record.plan) if record else 0,
            failed_rounds=record.failures if record else 0,
            counted=tuple(me.pod for me in world.me),
        )
        job = dataclasses.replace(self._job, spec=self._specs[at.wanted], status=known)
        living = tuple(self._pod(i, proc) for i, proc in enumerate(procs) if _exists(proc))
        round_ = observed.Round(record, "1") if record else observed.Round()
        leases = {slot: world.leases[one] for slot, one in enumerate(found)}
        return observed.Observed(job, round_, leases, living)

    def _pod(self, i: int, proc: Proc) -> pods.Pod:
        me, ended = self.world.me[i], proc.state in (SUCCEEDED, FAILED)
        phase = proc.state.capitalize() if ended else "Running"
        deleting = bool(proc.flags & LEAVING)
        return pods.Pod(
            f"job-{me.slot}-{i}",
            me.pod,
            me.slot,
            i,
            phase,
            deleting,
            ready=not ended,
            started=not ended,
            created=f"{i:04}",
        )


def _exists(proc: Proc) -> bool:
    return proc.state not in (UNBORN, VANISHED) and not proc.flags & ORPHAN


def _key(procs: tuple[Proc, ...]) -> tuple[object, ...]:
    """What the operator sees of processes: their pods."""
    return tuple((proc.state if proc.state not in ALIVE else "", proc.flags & (LEAVING | ORPHAN)) for proc in procs)
