"""What was measured: printed as it comes, kept in ``build/bench/rendezvous.jsonl``, and at last one table."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable


@dataclasses.dataclass(frozen=True)
class Figure:
    """One measured value of one case. No value: it did not come about, and ``note`` says what did."""

    figure: str
    backend: str
    n: int
    value: float | None
    unit: str
    min: int = 0
    """The fewest nodes that the round might have had; as many as ``n`` where nothing else is said."""
    note: str = ""

    def line(self) -> str:
        """As one JSON object."""
        data = dataclasses.asdict(self) | {"min": self.min or self.n}
        data["value"] = None if self.value is None else round(self.value, 4)
        return json.dumps({key: value for key, value in data.items() if value != ""})

    @property
    def case(self) -> tuple[str, int, int, str]:
        """What the row of the table tells apart: all but the backend."""
        return self.figure, self.n, self.min or self.n, self.unit

    @property
    def cell(self) -> str:
        """The value as the table shows it."""
        shown = "" if self.value is None else f"{self.value:,.{_digits(self.value)}f}"
        return " ".join(filter(None, (shown, self.note)))


class Report:
    """Takes figures in, and tells them at once."""

    def __init__(self, path: pathlib.Path) -> None:
        self.figures: list[Figure] = []
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")

    def add(self, figures: Iterable[Figure]) -> None:
        """Writes and prints each."""
        for figure in figures:
            self.figures.append(figure)
            with self._path.open("a") as file:
                file.write(figure.line() + "\n")
            print(f"{figure.figure:26} {figure.backend:22} n={figure.n:<5} {figure.cell} {figure.unit}", flush=True)


def table(figures: Iterable[Figure]) -> str:
    """One row a case and one column a backend, in the order in which they came. Of repeated cases the median."""
    rows: dict[tuple[str, int, int, str], dict[str, list[Figure]]] = {}
    backends: dict[str, None] = {}
    for figure in figures:
        rows.setdefault(figure.case, {}).setdefault(figure.backend, []).append(figure)
        backends[figure.backend] = None
    lines = [f"| figure | n | unit | {' | '.join(backends)} |", "|---|---:|---|" + "---:|" * len(backends)]
    for (name, n, low, unit), row in rows.items():
        nodes = str(n) if low == n else f"{n} (min {low})"
        cells = [_median(row[backend]) if backend in row else "" for backend in backends]
        lines.append(f"| {name} | {nodes} | {unit} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _median(figures: list[Figure]) -> str:
    """The middle one; who has none comes last: a case that failed more often than not is a failure."""
    ordered = sorted(figures, key=lambda figure: float("inf") if figure.value is None else figure.value)
    return ordered[(len(ordered) - 1) // 2].cell


def _digits(value: float) -> int:
    return 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 1 else 3
