"""The operator's part in :mod:`support.rendezvous_world`, as the protocol asks for it: the simplest that is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elasticjob_rendezvous.round import agent, changing
from elasticjob_rendezvous.round.record import Phase, Reason, Record, Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elasticjob_rendezvous.round.lease import SlotLease
    from support.rendezvous_world import World

Step = tuple[str, Record, bool]
"""What is said, the new record, and whether it costs a fault."""


def steps(world: World) -> Iterator[Step]:
    """Every write of the record that the operator might make now."""
    r = world.record
    leases = {slot: found for slot, (_, found) in world.leases.items()}
    if r is None:
        number = max(world.top, *(found.seen for found in leases.values())) + 1
        new = changing.started("job", world.shape.plan, number=number, reason=Reason.STATE_LOST)
        yield f"re-creates the record as {number}", new, False
    elif r.phase is not Phase.CLOSED:
        end = _ending(r, leases)
        if end is not None:
            yield "closes", end, False
        else:
            yield from _losses(world, r)
            yield from _waiting(world, r, leases)
            yield from _plans(world, r)


def _ending(r: Record, leases: dict[int, SlotLease]) -> Record | None:
    if agent.unknown(r) and any(found.finished for found in leases.values()):
        return changing.closed(r, Result.FAILED)
    count = [m for m in r.members if m.slot in r.plan]  # who was scaled down does not count
    if count and all(leases[m.slot].nonce == m.nonce and leases[m.slot].finished == r.sealed for m in count):
        return changing.closed(r, Result.SUCCEEDED)
    return None


def _losses(world: World, r: Record) -> Iterator[Step]:
    left = [m for m in r.members if (r.sealed, m.nonce) not in world.finished]
    gone = [m for m in left if not any(p.alive and p.member == m for p in world.procs)]
    if r.phase is Phase.SEALED and gone:
        absent = (r.plan - r.member_slots) | ({m.slot for m in gone} - _live(world))
        yield "pod lost", changing.opened(r, Reason.POD_LOST, absent=absent & r.plan), False
    working = ("training", "done", "checking")
    if r.phase is Phase.FINISHING and any(
        not any(p.member == m and p.state in working for p in world.procs) for m in left
    ):
        yield "gives up: a member failed while others finished", changing.closed(r, Result.FAILED), False
        again = changing.opened(r, Reason.WORKERS_FAILED, absent=r.plan - r.member_slots)
        yield "runs again: a member failed while others finished", again, False


def _waiting(world: World, r: Record, leases: dict[int, SlotLease]) -> Iterator[Step]:
    live = _live(world)
    for slot in sorted(r.plan):
        found = leases[slot]
        if r.phase is Phase.OPEN and slot not in r.absent | live and found.nonce not in r.suspects:
            yield f"does not wait for slot {slot}", changing.amended(r, absent=r.absent | {slot}), False
        waits = slot in live and not found.free and found.arrived == r.number + 1
        if r.phase is Phase.SEALED and slot not in r.member_slots and waits:
            absent = r.plan - r.member_slots - {slot}
            yield f"slot {slot} waits", changing.opened(r, Reason.NODE_JOINED, absent=absent), False


def _plans(world: World, r: Record) -> Iterator[Step]:
    if r.phase is Phase.FINISHING or not world.may("plan"):
        return
    for slot in range(world.shape.slots):
        if slot in r.plan and len(r.plan) > world.shape.low:
            plan = r.plan - {slot}
            absent = plan - r.member_slots
            new = changing.opened(r, Reason.RESIZED, plan=plan, absent=absent) if r.running else None
            yield f"slot {slot} goes", new or changing.amended(r, plan=plan), True
        elif slot not in r.plan and len(r.plan) < world.shape.high:
            yield f"slot {slot} comes", changing.amended(r, plan=r.plan | {slot}, absent=r.absent | {slot}), True


def _live(world: World) -> set[int]:
    return {p.slot for p in world.procs if p.alive and p.api and p.state != "done"}
