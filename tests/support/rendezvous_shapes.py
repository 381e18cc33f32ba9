"""The worlds in which the protocol is explored: each a few processes, and the faults that may come in any order.

``KEPT`` are walked to the last state by the unit tests; all of ``SHAPES`` by ``make explore``, as far as time allows.
"""

from __future__ import annotations

from typing import Any

from support.rendezvous_states import Shape

ROUNDS_A_FAULT = 3
"""So many rounds one fault may cost: one without the lost node, one with its successor, one that met both halfway."""

IN_PLACE = ((0, "a"), (0, "a"), (1, "b"), (1, "b"))
"""Two slots, and a second process of each, which a kubelet starts in the same pod."""
REPLACED = ((0, "a"), (0, "a2"), (1, "b"), (1, "b2"))
"""Two slots, and a second process of each, in a pod of its own."""
TWO = ((0, "a"), (1, "b"))
THREE = ((0, "a"), (1, "b"), (2, "c"))


def _job(pods: tuple[tuple[int, str], ...], low: int, high: int, wanted: int, /, **more: Any) -> Shape:
    """A job with an operator that trains already; faults are named by keyword."""
    fields = {"trained", "grace", "rounds", "operator_down"}
    faults = {name: count for name, count in more.items() if name not in fields}
    rest = {name: value for name, value in more.items() if name in fields}
    return Shape(pods, low, high, faults, wanted=wanted, **{"trained": True, **rest})


SHAPES = {
    "a first start": _job(TWO, 1, 2, 2, trained=False),
    "a crash, a lost reply": _job(REPLACED, 1, 2, 2, trained=False, crash=1, lost=1),
    "a crash, an old look": _job(REPLACED, 1, 2, 2, trained=False, crash=1, stale=1),
    "slow pods": _job(THREE, 1, 3, 3, trained=False, slow=1),
    "a SIGTERM at the start": _job(REPLACED, 1, 2, 2, trained=False, leave=1),
    "a crash": _job(REPLACED, 1, 2, 2, crash=1),
    "a vanished pod, a lost reply": _job(REPLACED, 1, 2, 2, vanish=1, lost=1),
    "two crashes": _job(REPLACED, 1, 2, 2, crash=2),
    "two crashes, both nodes needed": _job(REPLACED, 2, 2, 2, crash=2),
    "a crash, an old look, while it trains": _job(REPLACED, 1, 2, 2, crash=1, stale=1),
    "failing workers, an end": _job(TWO, 1, 2, 2, fail=1, finish=1),
    "workers fail twice": _job(TWO, 2, 2, 2, fail=2),
    "a crash, failing workers, an end": _job(REPLACED, 1, 2, 2, crash=1, fail=1, finish=1),
    "the API away, an end": _job(REPLACED, 1, 2, 2, cut=1, finish=1),
    "the API away, a pod deleted by force": _job(REPLACED, 1, 2, 2, cut=1, zombie=1),
    "the API away for all, pods deleted by force": _job(REPLACED, 1, 2, 2, cut=2, zombie=2),
    "a resize, an end": _job(THREE, 1, 3, 2, plan=1, finish=1),
    "two resizes": _job(THREE, 1, 3, 2, plan=2),
    "two resizes with checkpoints": _job(THREE, 1, 3, 2, plan=2, grace=30),
    "a resize, slow pods": _job(THREE, 1, 3, 2, plan=1, slow=1),
    "a resize, the API away for all": _job(THREE, 1, 3, 2, plan=1, cut=2),
    "suspended": _job(REPLACED, 1, 2, 2, suspend=1),
    "suspended as it ends": _job(REPLACED, 1, 2, 2, suspend=1, finish=1),
    "a false suspicion": _job(THREE, 1, 3, 3, suspect=1),
    "two false suspicions": _job(THREE, 1, 3, 3, suspect=2),
    "a false suspicion, a resize": _job(THREE, 1, 3, 2, suspect=1, plan=1),
    "a SIGTERM": _job(REPLACED, 1, 2, 2, leave=1),
    "a SIGTERM, an end": _job(REPLACED, 1, 2, 2, leave=1, finish=1),
    "broken links": _job(THREE, 1, 3, 3, link=1, rounds=5),
    "broken links at the start": _job(THREE, 1, 3, 3, trained=False, link=1, rounds=5),
    "the record deleted, a crash": _job(REPLACED, 1, 2, 2, delete=1, crash=1),
    "the record deleted, an end": _job(REPLACED, 1, 2, 2, delete=1, finish=1),
    "the record deleted, the API away": _job(REPLACED, 1, 2, 2, delete=1, cut=1),
    "no operator for a while: a crash, failing workers": _job(IN_PLACE, 1, 2, 2, crash=1, fail=1, operator_down=True),
    "no operator for a while: the API away": _job(REPLACED, 1, 2, 2, cut=1, operator_down=True),
    "standalone: a first start, an end": _job(THREE, 2, 3, 0, trained=False, finish=1),
    "standalone: a crash at the start": _job(IN_PLACE, 1, 2, 0, trained=False, crash=1),
    "standalone: a crash, failing workers": _job(IN_PLACE, 1, 2, 0, crash=1, fail=1),
    "standalone: a crash, an end": _job(IN_PLACE, 1, 2, 0, crash=1, finish=1),
    "standalone: two crashes, both nodes needed": _job(IN_PLACE, 2, 2, 0, crash=2),
    "standalone: the API away, a pod replaced": _job(REPLACED, 1, 2, 0, cut=1, zombie=1),
    "standalone: the API away for all, pods replaced": _job(REPLACED, 1, 2, 0, cut=2, zombie=2),
    "standalone: a SIGTERM": _job(IN_PLACE, 1, 2, 0, leave=1),
    "standalone: a false suspicion": _job(THREE, 1, 3, 0, suspect=1),
    "standalone: the record deleted, a crash": _job(IN_PLACE, 1, 2, 0, delete=1, crash=1),
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
    "a SIGTERM",
    "broken links",
    "the record deleted, an end",
    "the record deleted, the API away",
    "no operator for a while: the API away",
    "standalone: a crash at the start",
    "standalone: a crash, an end",
    "standalone: two crashes, both nodes needed",
    "standalone: the API away, a pod replaced",
    "standalone: a false suspicion",
    "standalone: the record deleted, a crash",
)
"""Those that take a fraction of a second each."""

WALKS = 25
"""Random walks through each of ``LARGE``."""

_EACH = {"crash": 2, "cut": 1, "lost": 1, "suspect": 1, "fail": 1, "finish": 1, "plan": 2, "leave": 1, "stale": 1}
_PODS = tuple((slot, f"{slot}-{number}") for slot in range(4) for number in range(4))

LARGE = {
    "four of five nodes": Shape((*_PODS, (4, "4-0"), (4, "4-1")), 2, 5, _EACH, wanted=4),
    "four nodes, the record deleted": Shape(_PODS, 2, 4, {**_EACH, "delete": 1}, wanted=4, trained=True),
    "standalone": Shape(_PODS, 2, 4, {kind: count for kind, count in _EACH.items() if kind not in ("plan", "stale")}),
}
"""Too large for every order."""
