"""The transitions of a round record: the only ways in which one record may become the next.

Each is a pure function from the record read to the record to be written under that read's ``resourceVersion``. A
transition that the protocol does not allow raises ``ValueError``: a bug of the caller, never of the cluster. Who may
call which, and when, is decided in :mod:`~elasticjob_rendezvous.round.agent` and in the operator's ``core``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from elasticjob_rendezvous.round.record import MAX_END, Member, Notice, Phase, Reason, Record, Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def started(job: str, plan: Iterable[int], *, number: int = 1, reason: Reason = Reason.STARTED) -> Record:
    """A job's first record; with a *number* above every number seen, the successor of one that was lost."""
    return Record(job=job, number=number, phase=Phase.OPEN, reason=reason, plan=frozenset(plan))


def opened(
    record: Record,
    reason: Reason,
    *,
    absent: Iterable[int] = (),
    suspects: Iterable[str] = (),
    plan: Iterable[int] | None = None,
) -> Record:
    """The next round, opened from a sealed (or finishing) one. What was sealed last stays readable, a notice ends."""
    if not record.running:
        raise ValueError(f"a round is opened only from a sealed one, this is {record.phase.value}")
    new_plan = record.plan if plan is None else frozenset(plan)
    return dataclasses.replace(
        record,
        number=record.number + 1,
        phase=Phase.OPEN,
        reason=reason,
        plan=new_plan,
        absent=frozenset(absent) & new_plan,
        suspects=frozenset(suspects),
        notice=None,
    )


def amended(
    record: Record,
    *,
    reason: Reason | None = None,
    plan: Iterable[int] | None = None,
    absent: Iterable[int] | None = None,
    suspects: Iterable[str] | None = None,
) -> Record:
    """An open round with another plan, other absent slots or suspects; never a new number: what arrived stays good.

    A sealed round may be amended in ``plan`` and ``absent`` alone: that is how new slots are announced before the round
    that takes them in.
    """
    if record.phase is Phase.CLOSED or (record.running and (reason is not None or suspects is not None)):
        raise ValueError(f"a {record.phase.value} round is not amended so")
    new_plan = record.plan if plan is None else frozenset(plan)
    return dataclasses.replace(
        record,
        reason=record.reason if reason is None else reason,
        plan=new_plan,
        absent=(record.absent if absent is None else frozenset(absent)) & new_plan,
        suspects=record.suspects if suspects is None else frozenset(suspects),
    )


def bounded(record: Record, *, min_nodes: int, sizes: Iterable[int]) -> Record:
    """The record with what the next seal is bound by: the fewest members, and the allowed numbers of them.

    A sealed round may carry other bounds than it was sealed under: they hold for the round after it.
    """
    if record.phase is Phase.CLOSED:
        raise ValueError("a closed round has no successor")
    return dataclasses.replace(record, min_nodes=min_nodes, sizes=frozenset(sizes))


def sealed(record: Record, members: Sequence[Member], store: str) -> Record:
    """The open round with its *members* in rank order and rank 0's *store*. A failure is counted here, once a round."""
    if record.phase is not Phase.OPEN:
        raise ValueError(f"only an open round is sealed, this is {record.phase.value}")
    return dataclasses.replace(
        record,
        phase=Phase.SEALED,
        suspects=frozenset(),
        sealed=record.number,
        members=tuple(members),
        store=store,
        failures=record.failures + (record.reason is Reason.WORKERS_FAILED),
    )


def noticed(record: Record, notice: Notice | None) -> Record:
    """The sealed round with a checkpoint *notice*, or without one."""
    if record.phase is not Phase.SEALED:
        raise ValueError(f"a notice goes to a sealed round, this is {record.phase.value}")
    return dataclasses.replace(record, notice=notice)


def finishing(record: Record) -> Record:
    """The sealed round, one of whose members has finished: from now no resize opens a round."""
    if record.phase is not Phase.SEALED:
        raise ValueError(f"only a sealed round begins to finish, this is {record.phase.value}")
    return dataclasses.replace(record, phase=Phase.FINISHING, notice=None)


def closed(record: Record, result: Result, end: str = "") -> Record:
    """The end of the job, for good. *end* says why, in a line for people."""
    if record.phase is Phase.CLOSED or result is Result.NONE:
        raise ValueError("a job is closed once, with a result")
    return dataclasses.replace(record, phase=Phase.CLOSED, notice=None, result=result, end=end[:MAX_END])
