"""The worlds in which the protocol is explored: each a few processes, and the faults that may come in any order.

``KEPT`` are walked to the last state by the unit tests; all of ``SHAPES`` by ``make explore``, as far as time allows.
"""

from __future__ import annotations

from typing import Any

from support.rendezvous_states import Shape

IN_PLACE = ((0, "a"), (0, "a"), (1, "b"), (1, "b"))
"""Two slots, and a second process of each, which a kubelet starts in the same pod."""
REPLACED = ((0, "a"), (0, "a2"), (1, "b"), (1, "b2"))
"""Two slots, and a second process of each, in a pod of its own."""
ONE = ((0, "a"), (0, "a2"))
TWO = ((0, "a"), (1, "b"))
THREE = ((0, "a"), (1, "b"), (2, "c"))


def a_job(pods: tuple[tuple[int, str], ...], low: int, high: int, wanted: int, /, **more: Any) -> Shape:
    """A job with an operator that trains already; faults are named by keyword."""
    fields = {"trained", "sealed", "away", "grace", "rounds", "operator_down"}
    faults = {name: count for name, count in more.items() if name not in fields}
    rest = {name: value for name, value in more.items() if name in fields}
    return Shape(pods, low, high, faults, wanted=wanted, **{"trained": True, **rest})


SHAPES = {
    "a first start": a_job(TWO, 1, 2, 2, trained=False),
    "a crash, a lost reply": a_job(REPLACED, 1, 2, 2, trained=False, crash=1, lost=1),
    "a crash, an old look": a_job(REPLACED, 1, 2, 2, trained=False, crash=1, stale=1),
    "slow pods": a_job(THREE, 1, 3, 3, trained=False, slow=1),
    "a SIGTERM at the start": a_job(REPLACED, 1, 2, 2, trained=False, leave=1),
    "a crash": a_job(REPLACED, 1, 2, 2, crash=1),
    "a vanished pod, a lost reply": a_job(REPLACED, 1, 2, 2, vanish=1, lost=1),
    "two crashes": a_job(REPLACED, 1, 2, 2, crash=2),
    "two crashes, both nodes needed": a_job(REPLACED, 2, 2, 2, crash=2),
    "a crash, an old look, while it trains": a_job(REPLACED, 1, 2, 2, crash=1, stale=1),
    "failing workers, an end": a_job(TWO, 1, 2, 2, fail=1, finish=1),
    "workers fail twice": a_job(TWO, 2, 2, 2, fail=2),
    "a crash, failing workers, an end": a_job(REPLACED, 1, 2, 2, crash=1, fail=1, finish=1),
    "the API away, an end": a_job(REPLACED, 1, 2, 2, cut=1, finish=1),
    "the API away, a vanished pod": a_job(REPLACED, 1, 2, 2, cut=1, vanish=1),
    "the API away for all, a vanished pod": a_job(REPLACED, 1, 2, 2, cut=2, vanish=1),
    "a resize, an end": a_job(THREE, 1, 3, 2, plan=1, finish=1),
    "two resizes": a_job(THREE, 1, 3, 2, plan=2),
    "two resizes with checkpoints": a_job(THREE, 1, 3, 2, plan=2, grace=30),
    "a resize, slow pods": a_job(THREE, 1, 3, 2, plan=1, slow=1),
    "a resize, the API away for all": a_job(THREE, 1, 3, 2, plan=1, cut=2),
    "suspended": a_job(REPLACED, 1, 2, 2, suspend=1),
    "suspended as it ends": a_job(REPLACED, 1, 2, 2, suspend=1, finish=1),
    "a false suspicion": a_job(THREE, 1, 3, 3, suspect=1),
    "two false suspicions": a_job(THREE, 1, 3, 3, suspect=2),
    "a false suspicion, a resize": a_job(THREE, 1, 3, 2, suspect=1, plan=1),
    "a connection refused, a resize": a_job(THREE, 1, 3, 2, refuse=1, plan=1),
    "a connection refused, failing workers": a_job(THREE, 1, 3, 3, refuse=1, fail=1),
    "a connection refused, a crash": a_job(REPLACED, 1, 2, 2, trained=False, refuse=1, crash=1),
    "a SIGTERM": a_job(REPLACED, 1, 2, 2, leave=1),
    "a SIGTERM, an end": a_job(REPLACED, 1, 2, 2, leave=1, finish=1),
    "broken links": a_job(THREE, 1, 3, 3, link=1, rounds=4),
    "broken links at the start": a_job(THREE, 1, 3, 3, trained=False, link=1, rounds=5),
    "the record deleted, a crash": a_job(REPLACED, 1, 2, 2, delete=1, crash=1),
    "the record deleted, an end": a_job(REPLACED, 1, 2, 2, delete=1, finish=1),
    "the record deleted, the API away": a_job(REPLACED, 1, 2, 2, delete=1, cut=1),
    "no operator for a while: a crash, failing workers": a_job(IN_PLACE, 1, 2, 2, crash=1, fail=1, operator_down=True),
    "no operator for a while: the API away": a_job(REPLACED, 1, 2, 2, cut=1, operator_down=True),
    "standalone: a first start, an end": a_job(THREE, 2, 3, 0, trained=False, finish=1),
    "standalone: a crash at the start": a_job(IN_PLACE, 1, 2, 0, trained=False, crash=1),
    "standalone: a crash, failing workers": a_job(IN_PLACE, 1, 2, 0, crash=1, fail=1),
    "standalone: a crash, an end": a_job(IN_PLACE, 1, 2, 0, crash=1, finish=1),
    "standalone: two crashes, both nodes needed": a_job(IN_PLACE, 2, 2, 0, crash=2),
    "standalone: the API away, a pod replaced": a_job(REPLACED, 1, 2, 0, cut=1, zombie=1),
    "standalone: the API away for all, pods replaced": a_job(REPLACED, 1, 2, 0, cut=2, zombie=2),
    "standalone: a SIGTERM": a_job(IN_PLACE, 1, 2, 0, leave=1),
    "standalone: a false suspicion": a_job(THREE, 1, 3, 0, suspect=1),
    "standalone: a connection refused, failing workers": a_job(THREE, 1, 3, 0, refuse=1, fail=1),
    "standalone: the record deleted, a crash": a_job(IN_PLACE, 1, 2, 0, delete=1, crash=1),
}
"""All of them."""

KEPT = (
    "a first start",
    "a crash",
    "failing workers, an end",
    "workers fail twice",
    "the API away, an end",
    "a resize, an end",
    "two resizes with checkpoints",
    "suspended",
    "a false suspicion",
    "a connection refused, a resize",
    "a SIGTERM",
    "broken links",
    "the record deleted, an end",
    "no operator for a while: the API away",
    "standalone: a crash at the start",
    "standalone: a crash, an end",
    "standalone: two crashes, both nodes needed",
    "standalone: the API away, a pod replaced",
    "standalone: a false suspicion",
    "standalone: the record deleted, a crash",
)
"""Those that take a fraction of a second each."""

WALKS = 10
"""Random walks through each of ``LARGE``."""

_EACH = {"crash": 2, "cut": 1, "lost": 1, "suspect": 1, "fail": 1, "finish": 1, "plan": 2, "leave": 1, "stale": 1}
_PODS = tuple((slot, f"{slot}-{number}") for slot in range(4) for number in range(4))

LARGE = {
    "four of five nodes": Shape((*_PODS, (4, "4-0"), (4, "4-1")), 2, 5, _EACH, wanted=4),
    "four nodes, the record deleted": Shape(_PODS, 2, 4, {**_EACH, "delete": 1}, wanted=4, trained=True),
    "standalone": Shape(_PODS, 2, 4, {kind: count for kind, count in _EACH.items() if kind not in ("plan", "stale")}),
}
"""Too large for every order."""
