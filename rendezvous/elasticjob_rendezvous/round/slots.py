"""Sets of slots as text: ``0-3,7``. Run-length, so that a plan of a thousand slots is seven characters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_SLOTS = 1024
"""Most slots a job may have: the bound of ``maxNodes`` in the CRD (a Role naming 1024 Leases is about 30 kB)."""

_RUN = re.compile(r"(0|[1-9]\d{0,3})(?:-(0|[1-9]\d{0,3}))?")


def dump(slots: Iterable[int]) -> str:
    """The runs of *slots* in ascending order; the empty set is the empty string."""
    runs: list[list[int]] = []
    for slot in sorted(set(slots)):
        if runs and slot == runs[-1][1] + 1:
            runs[-1][1] = slot
        else:
            runs.append([slot, slot])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def parse(text: str, *, most: int = MAX_SLOTS - 1) -> frozenset[int]:
    """The set that :func:`dump` wrote.

    Raises:
        ValueError: *text* is not of that form, or names a number above *most*.
    """
    found: set[int] = set()
    for part in text.split(",") if text else ():
        run = _RUN.fullmatch(part)
        if run is None:
            raise ValueError(f"not a set of slots: {text!r} (expected something like 0-3,7)")
        low, high = int(run[1]), int(run[2] or run[1])
        if not low <= high <= most:
            raise ValueError(f"slots out of order or beyond {most}: {part!r}")
        found.update(range(low, high + 1))
    return frozenset(found)
