"""What the job's status tells of the autoscaler: the size it has given, why, and each change of it."""

from collections.abc import Iterator

from elasticjob_operator.api import conditions, status
from elasticjob_operator.api.allocation import PINNED, Allocation
from elasticjob_operator.api.conditions import Condition
from elasticjob_operator.core import sizing
from elasticjob_operator.core.actions import Event

DRY_RUN = "dry run, nothing is done: "


def allocated(known: status.Status) -> Iterator[Condition]:
    """Whether the job has been given nodes; nothing where there is no autoscaler."""
    given = known.allocation
    if given is not None:
        prefix = DRY_RUN if given.dry_run else ""
        yield Condition(conditions.ALLOCATED, given.nodes > 0, given.reason, f"{prefix}{given.message}")


def events(old: status.Status, new: status.Status) -> Iterator[Event]:
    """One for each decision that gives the job another size, or none for another reason.

    What the spec itself says is none: a size, or that the job is suspended.
    """
    before, given = old.allocation, new.allocation
    if given is None or given.reason in (PINNED, sizing.SUSPENDED) or (before and _same(before, given)):
        return
    prefix = DRY_RUN if given.dry_run else ""
    yield Event(given.reason, f"{prefix}{given.message}")


def _same(before: Allocation, given: Allocation) -> bool:
    """Whether there is nothing to tell: the same size, and where that is none, for the same reason."""
    reasons = (before.reason, given.reason) if not given.nodes else ()
    return (before.nodes, before.dry_run) == (given.nodes, given.dry_run) and len(set(reasons)) < 2  # noqa: PLR2004
