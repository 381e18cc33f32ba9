"""Part of phase 5: a node lent for a trial, where nothing is free and nothing would ever be learned.

Of jobs that were each measured at one size nobody knows who scales: they share alike, for ever. So one of them borrows
from another, both are measured anew, and phase 5 goes on from there. Careful, because it costs:

* One trial at a time, and only where it teaches: its borrower was never measured larger, or its lender never smaller.
* At most a quarter more (at least one node), from a job of the same priority, queue and kind of pod, above its minimum.
* Only among jobs none of which has changed for twenty times what it costs: there and back, it takes a twentieth of the
  two's time, and where jobs come and go their sizes change anyway.
"""

from __future__ import annotations

import bisect
import collections
import math
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import claims, curves

if TYPE_CHECKING:
    from collections.abc import Collection

    from elasticjob_operator.autoscaler import drafts, settings, snapshot

STEP = 4
"""One node for each so many: what less would change drowns in the noise of the reports."""
STANDING = 20.0
"""Times the cost of both jobs' changes for which all that are alike must have stood."""
PATIENCE = 300.0
"""Seconds beside the change itself in which a size is to be measured, though somebody's step takes a minute."""
ATTEMPTS = 8
"""Borrowers looked at, the most promising first: to look at all pairs of a thousand jobs would take long."""
STAY = math.log(curves.LARGEST_RATE / curves.SMALLEST_RATE)
"""Logarithm: what staying at a size on trial is worth. More than any size can gain."""


def on_trial(job: snapshot.Job) -> bool:
    """Whether it has, or waits for, a size a step outside all that were measured, and will soon tell of it."""
    size = job.promised or job.granted
    if not job.measured or not size:
        return False
    least, most = min(job.measured), max(job.measured)
    near = most < size <= most + _step(most) or least > size >= least - _step(least)
    return near and (bool(job.promised) or job.stood < PATIENCE + job.resize_cost)


def _step(size: int) -> int:
    return max(size // STEP, 1)


def lend(ordered: list[drafts.Draft], rules: settings.Settings, vain: Collection[str] = ()) -> drafts.Draft | None:
    """Let the job that is thought to gain most borrow from the one that is thought to lose least; who borrows, if any.

    *vain*: who found no place for what it would borrow.
    """
    if any(on_trial(draft.job) for draft in ordered):
        return None
    peers = collections.defaultdict[object, list["drafts.Draft"]](list)
    for draft in ordered:
        if draft.nodes:
            peers[_kinship(draft)].append(draft)
    for every in peers.values():
        group, quiet = list(filter(_settled, every)), min(draft.job.stood for draft in every)
        shy = [draft for draft in group if draft.nodes == min(draft.job.measured) and draft.nodes > draft.minimum]
        able = [draft for draft in group if shy or draft.nodes == max(draft.job.measured)]
        bold = [draft for draft in able if draft.job.name not in vain and _would_grow(draft, rules)]
        bold.sort(key=lambda draft: -draft.weight * _gain(draft, _more(draft)))
        if borrower := next((draft for draft in bold[:ATTEMPTS] if _borrow(draft, group, quiet)), None):
            return borrower
    return None


def _settled(draft: drafts.Draft) -> bool:
    """This decision leaves it as it is, and as it is it was measured."""
    job = draft.job
    free = not job.held and not job.promised and job.pinned is None and bool(job.accelerators)
    return free and draft.nodes == job.granted and draft.nodes in job.measured


def _kinship(draft: drafts.Draft) -> object:
    """What must be alike, so that the node fits and no team pays for another's trial."""
    job = draft.job
    return job.priority, claims.home(job), job.namespace, job.accelerators, draft.kind, job.candidates


def _would_grow(draft: drafts.Draft, rules: settings.Settings) -> bool:
    """Whether it takes a larger size as soon as there is room."""
    return draft.cap is None and _gain(draft, _more(draft)) > draft.cost(rules)


def _more(draft: drafts.Draft) -> int:
    """The size to try; its own, if it may have none that is near."""
    most = max(min(draft.nodes + _step(draft.nodes), draft.curve.reach), draft.nodes)
    return draft.sizes[bisect.bisect(draft.sizes, most) - 1]


def _gain(draft: drafts.Draft, size: int) -> float:
    return draft.curve.log(size) - draft.curve.log(draft.nodes)


def _borrow(borrower: drafts.Draft, group: list[drafts.Draft], quiet: float) -> bool:
    """From one that is measured smaller by it, if there is one. *quiet*: seconds in which none of them has changed."""
    wanted = _more(borrower) - borrower.nodes
    offers = []
    for lender in group:
        size = lender.nodes - wanted
        shy = lender.nodes == min(lender.job.measured)
        teaches = shy or borrower.nodes == max(borrower.job.measured)
        waited = quiet >= STANDING * (borrower.job.resize_cost + lender.job.resize_cost)
        able = lender is not borrower and size in lender.sizes and wanted <= _step(lender.nodes)
        if able and teaches and waited:
            offers.append((not shy, -lender.weight * _gain(lender, size), lender.job.name, lender, size))
    if not offers:
        return False
    *_, lender, size = min(offers, key=lambda offer: offer[:3])
    loose = min(lender.loose, wanted)
    lender.nodes, lender.loose, lender.partner = size, lender.loose - loose, borrower
    borrower.nodes, borrower.loose, borrower.partner = borrower.nodes + wanted, borrower.loose + loose, lender
    return True
