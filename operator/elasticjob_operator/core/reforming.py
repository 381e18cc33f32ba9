"""A member is lost: the others go on without it, at once. Who takes its place is another round's business.

A replacement that waits already is taken in all the same, because an absent slot that has arrived is a member.
"""

from collections.abc import Iterator

from elasticjob_operator.core.observed import Observed
from elasticjob_operator.core.situation import Situation, Step
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Member, Phase, Reason, Record


def step(situation: Situation) -> Step | None:
    """Open a round without the members that are gone, or have given up while others finished."""
    record, observed = situation.record, situation.observed
    if not record.running:
        return None
    lost = observed.lost(record)
    if lost and not (_too_few(situation, lost) and any(map(observed.ending, lost))):
        return Step(reopened(situation, Reason.POD_LOST, lost))
    if record.phase is Phase.FINISHING and any(stopped(observed, record)):
        return Step(reopened(situation, Reason.WORKERS_FAILED, ()))
    return None


def _too_few(situation: Situation, lost: tuple[Member, ...]) -> bool:
    """Whether nobody could form a round without the lost ones: neither the other members nor who is parked.

    Then a member whose pod is only being deleted trains on until it ends. In another round agents would forgive it,
    rather than fall below the minimum; it would be lost again at once, and so on for as long as it lives.
    """
    record, observed = situation.record, situation.observed
    return len(record.members) - len(lost) + len(observed.parked(record)) < situation.spec.min_nodes


def stopped(observed: Observed, record: Record) -> Iterator[Member]:
    """Members that are known to have stopped before they finished.

    They open a round by themselves, unless it is finishing: then only the operator may decide that the work goes on.
    """
    for member in record.members:
        lease = observed.lease(member.slot)
        if observed.has_finished(member, record.sealed):
            continue
        failed = lease.failure is not None and lease.failure.round == record.sealed
        if lease.nonce != member.nonce or lease.arrived > record.sealed or failed:
            yield member


def reopened(situation: Situation, reason: Reason, lost: tuple[Member, ...]) -> Record:
    """The next round, without the *lost* members and whoever has no living pod."""
    record, observed = situation.record, situation.observed
    plan = situation.target
    gone = {slot for slot in plan if slot not in observed.live} | {m.slot for m in lost}
    return changing.opened(
        record,
        reason,
        plan=plan,
        absent=(plan - record.member_slots) | gone,
        suspects=leaving(situation),
    )


def leaving(situation: Situation) -> frozenset[str]:
    """Processes whose pods are ending, or gone but not counted yet: having arrived, they must not become members.

    Only while enough others are there as processes: agents forgive suspects rather than fall below the minimum, and
    naming them again and again would only be a contest.
    """
    observed, plan = situation.observed, situation.target
    if sum(map(observed.holder_lives, plan)) < situation.spec.min_nodes:
        return frozenset()
    held = [observed.lease(slot) for slot in plan if not observed.lease(slot).free]
    return frozenset(lease.nonce for lease in held if not observed.holder_lives(lease.slot) and not lease.finished)
