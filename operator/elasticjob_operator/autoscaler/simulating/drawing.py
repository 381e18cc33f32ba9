"""A replay as one SVG: accelerators in use over time, stacked by job, one colour each. Text only, no library."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elasticjob_operator.autoscaler.simulating import results

WIDTH, HEIGHT, MARGIN = 960, 320, 48
"""Of the picture and around the plot, pixels."""
COLUMNS = 240
"""Moments drawn."""
GOLDEN = 137.5
"""Degrees between the hues of successive jobs: neighbours never look alike."""


def timeline(run: results.Result, accelerators: int) -> str:
    """The picture's text."""
    end = run.makespan or 1.0
    table = _columns(run, end)
    scale = (WIDTH - 2 * MARGIN) / COLUMNS, (HEIGHT - 2 * MARGIN) / max(accelerators, 1)
    bands = [_band(name, rank, table, scale) for rank, name in enumerate(table)]
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    return "\n".join([head, ground, *bands, *_axes(end, accelerators, scale[1]), "</svg>", ""])


def _columns(run: results.Result, end: float) -> dict[str, list[int]]:
    """Accelerators of each job at each moment, jobs in the order of their starts."""
    table: dict[str, list[int]] = {}
    for at, name, count in sorted(run.timeline):
        row = table.setdefault(name, [0] * COLUMNS)
        first = int(at / end * COLUMNS)
        row[first:] = [count] * (COLUMNS - first)
    return table


def _band(name: str, rank: int, table: dict[str, list[int]], scale: tuple[float, float]) -> str:
    """One path: a rectangle for each moment in which it runs, on top of the jobs that started before it."""
    rows = list(table.values())
    parts = []
    for column, count in enumerate(table[name]):
        if count:
            below = sum(row[column] for row in rows[:rank])
            x, y = MARGIN + column * scale[0], HEIGHT - MARGIN - (below + count) * scale[1]
            parts.append(f"M{x:.1f} {y:.1f}h{scale[0] + 0.2:.1f}v{count * scale[1]:.1f}h{-scale[0] - 0.2:.1f}z")
    hue = rank * GOLDEN % 360
    return f'<path fill="hsl({hue:.0f} 55% 62%)" d="{"".join(parts)}"><title>{html.escape(name)}</title></path>'


def _axes(end: float, accelerators: int, scale: float) -> list[str]:
    bottom, right = HEIGHT - MARGIN, WIDTH - MARGIN
    top = bottom - accelerators * scale
    hours = end / 3600
    return [
        f'<path d="M{MARGIN} {top:.0f}V{bottom}H{right}" fill="none" stroke="black"/>',
        f'<text x="{MARGIN - 6}" y="{top + 4:.0f}" text-anchor="end">{accelerators}</text>',
        f'<text x="{MARGIN - 6}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{MARGIN}" y="{bottom + 18}">0 h</text>',
        f'<text x="{right}" y="{bottom + 18}" text-anchor="end">{hours:.1f} h</text>',
        f'<text x="{MARGIN}" y="{MARGIN - 14}">accelerators in use, one colour a job</text>',
    ]
