"""Which slots the job wants: the present plan, grown or shrunk to the wanted number of nodes."""

from collections.abc import Callable

from elasticjob_operator.api.spec import Spec
from elasticjob_operator.core.observed import Observed
from elasticjob_rendezvous.round.record import Record


def kept(wish: Spec) -> frozenset[int]:
    """Slots that are given up last, whatever becomes of their pods: without a host nobody meets."""
    return frozenset({0}) if wish.rendezvous.hosted else frozenset()


def target(
    observed: Observed, record: Record, *, wanted: int, most: int, kept: frozenset[int] = frozenset()
) -> frozenset[int]:
    """The plan with *wanted* slots that changes the present one least. Depends on nothing but what is seen now."""
    surplus = len(record.plan) - wanted
    if surplus > 0:
        worth = _worth(observed, record)
        return record.plan - frozenset(sorted(record.plan, key=lambda s: (s in kept, worth(s)))[:surplus])
    free = [slot for slot in range(most) if slot not in record.plan]
    return record.plan | frozenset(free[:-surplus] if surplus else ())


def _worth(observed: Observed, record: Record) -> Callable[[int], tuple[bool, bool, bool, int]]:
    """The order in which slots are given up: without a living pod, not in the round, not ready, then the highest."""
    arrived = record.member_slots if record.running else observed.arrived(record.plan, record.number)

    def worth(slot: int) -> tuple[bool, bool, bool, int]:
        pods = observed.live.get(slot, ())
        return (bool(pods), slot in arrived, any(p.ready for p in pods), -slot)

    return worth


def first(observed: Observed, *, wanted: int, kept: frozenset[int] = frozenset()) -> frozenset[int]:
    """The plan of a job without a record: the slots that have living pods first, then the lowest."""
    living = [*kept, *sorted(observed.live.keys() - kept)][:wanted]
    return frozenset([*living, *(slot for slot in range(wanted + len(living)) if slot not in living)][:wanted])
