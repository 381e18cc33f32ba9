"""Replays as one SVG, a panel each on one axis of time: the accelerators in use, and each job from its arrival to its
end. Text only, no library.
"""

from __future__ import annotations

import html
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elasticjob_operator.autoscaler.simulating import jobs, results

WIDTH, MARGIN = 960, 48
"""Of the picture and around the plots, pixels."""
USE, ROWS = 224, 240
"""Height of the plot of accelerators in use, and at most of all jobs' rows together, pixels."""
ROW = 14
"""Height of a job's row where there are few; its name is written where that much is left."""
COLUMNS = 240
"""Moments drawn of the accelerators in use."""
GOLDEN = 137.5
"""Degrees between the hues of successive jobs: neighbours never look alike."""

Segment = tuple[float, float, int]
"""(from, until, accelerators)."""


def picture(runs: Sequence[tuple[str, results.Result]], accelerators: int) -> str:
    """The picture's text: one panel for each named run."""
    end = max((run.end for _, run in runs), default=0.0) or 1.0
    parts, top = [], 0.0
    for label, run in runs:
        panel, height = _panel(label, run, accelerators, end)
        parts += [f'<g transform="translate(0 {top:.0f})">', *panel, "</g>"]
        top += height
    box = f'viewBox="0 0 {WIDTH} {max(top, 1):.0f}" font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{top:.0f}" fill="white"/>', *parts, "</svg>", ""])


def _panel(label: str, run: results.Result, accelerators: int, end: float) -> tuple[list[str], float]:
    """What is in it, and its height."""
    every = sorted((*run.finished, *run.unfinished), key=lambda one: (one.job.submitted, one.job.name))
    row = min(ROW, ROWS / max(len(every), 1))
    lives = _lives(run, every, end)
    colours = {name: f"hsl({rank * GOLDEN % 360:.0f} 55% 62%)" for rank, name in enumerate(lives)}
    bands = _bands(lives, colours, accelerators, end)
    rows = [
        _row(one, lives[one.job.name], colours[one.job.name], (MARGIN + USE + 36 + rank * row, row), end)
        for rank, one in enumerate(every)
    ]
    return [*bands, *rows, *_axes(label, accelerators, end)], MARGIN + USE + 36 + len(every) * row + 12


def _lives(run: results.Result, every: Sequence[jobs.Running], end: float) -> dict[str, list[Segment]]:
    """What each job had, in the order of their arrival."""
    changes: dict[str, list[tuple[float, int]]] = {one.job.name: [] for one in every}
    for at, name, count in run.timeline:
        changes[name].append((at, count))
    return {
        name: [(at, to, count) for (at, count), (to, _) in itertools.pairwise([*listed, (end, 0)]) if count]
        for name, listed in changes.items()
    }


def _bands(lives: dict[str, list[Segment]], colours: dict[str, str], accelerators: int, end: float) -> list[str]:
    """One path for each job: rectangles from moment to moment, on top of the jobs that came before it."""
    below, scale, step = [0] * COLUMNS, USE / max(accelerators, 1), (WIDTH - 2 * MARGIN) / COLUMNS
    bands = []
    for name, segments in lives.items():
        parts = []
        for begin, until, count in segments:
            columns = range(int(begin / end * COLUMNS), int(until / end * COLUMNS))
            for base, alike in itertools.groupby(columns, below.__getitem__):
                first, *more = alike
                x, y, width = MARGIN + first * step, MARGIN + USE - (base + count) * scale, (1 + len(more)) * step + 0.2
                parts.append(f"M{x:.1f} {y:.1f}h{width:.1f}v{count * scale:.1f}h{-width:.1f}z")
            for column in columns:
                below[column] += count
        bands.append(f'<path fill="{colours[name]}" d="{"".join(parts)}"><title>{html.escape(name)}</title></path>')
    return bands


def _row(one: jobs.Running, segments: list[Segment], colour: str, place: tuple[float, float], end: float) -> str:
    """A thin line from its arrival to its end, and on it what it had: the more, the thicker, against its own most."""
    top, height = place
    scale, middle, most = (WIDTH - 2 * MARGIN) / end, top + height / 2, max((n for _, _, n in segments), default=1)
    last = end if one.finished is None else one.finished
    parts = []
    for begin, until, count in segments:
        thick = 0.85 * height * count / most
        x, width = MARGIN + begin * scale, (until - begin) * scale
        parts.append(f"M{x:.1f} {middle - thick / 2:.1f}h{width:.1f}v{thick:.1f}h{-width:.1f}z")
    line = f"M{MARGIN + one.job.submitted * scale:.1f} {middle:.1f}H{MARGIN + last * scale:.1f}"
    name = html.escape(one.job.name)
    told = f'<text x="{MARGIN - 4}" y="{middle + 4:.1f}" text-anchor="end" font-size="9">{name[:9]}</text>'
    return (
        f'<path stroke="grey" stroke-width="0.5" d="{line}"/>'
        f'<path fill="{colour}" d="{"".join(parts)}"><title>{name}</title></path>{told if height == ROW else ""}'
    )


def _axes(label: str, accelerators: int, end: float) -> list[str]:
    bottom, right = MARGIN + USE, WIDTH - MARGIN
    title = f"{html.escape(label)}: accelerators in use, one colour a job; below, each job from its arrival to its end"
    return [
        f'<path d="M{MARGIN} {MARGIN}V{bottom}H{right}" fill="none" stroke="black"/>',
        f'<text x="{MARGIN - 6}" y="{MARGIN + 4}" text-anchor="end">{accelerators}</text>',
        f'<text x="{MARGIN - 6}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{MARGIN}" y="{bottom + 18}">0 h</text>',
        f'<text x="{right}" y="{bottom + 18}" text-anchor="end">{end / 3600:.1f} h</text>',
        f'<text x="{MARGIN}" y="{MARGIN - 14}">{title}</text>',
    ]
