"""What the rendezvous benchmark makes of what it saw: tables, medians, parts of a recovery. Nothing is measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from bench.rendezvous import crowd, figures, recovery

if TYPE_CHECKING:
    import pathlib


def a_figure(value: float | None, *, backend: str = "c10d", n: int = 8, note: str = "") -> figures.Figure:
    return figures.Figure("form", backend, n, value, "s", note=note)


def test_a_line_tells_its_case_apart() -> None:
    line = json.loads(figures.Figure("form_below_max", "c10d", 8, 31.23456, "s", min=4).line())
    assert line == {"figure": "form_below_max", "backend": "c10d", "n": 8, "value": 31.2346, "unit": "s", "min": 4}


def test_of_repeated_cases_the_table_shows_the_median() -> None:
    shown = figures.table([a_figure(v) for v in (3.0, 1.0, 2.0)] + [a_figure(0.5, backend="kubernetes")])
    assert shown.splitlines()[-1] == "| form | 8 | s | 2.00 | 0.500 |"


def test_who_failed_more_often_than_not_has_failed() -> None:
    shown = figures.table([a_figure(1.0), a_figure(None, note="gone"), a_figure(None, note="gone")])
    assert shown.splitlines()[-1] == "| form | 8 | s | gone |"


def test_a_report_is_written_as_it_comes(tmp_path: pathlib.Path) -> None:
    report = figures.Report(tmp_path / "bench/x.jsonl")
    report.add([a_figure(1.0), a_figure(2.0)])
    assert [json.loads(line)["value"] for line in (tmp_path / "bench/x.jsonl").read_text().splitlines()] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("ranks", "worlds", "problem"),
    [
        ((1, 0), (2, 2), ""),
        ((0, 0), (2, 2), "ranks [0, 0] of worlds [2]"),
        ((0, 1), (2, 1), "ranks [0, 1] of worlds [1, 2]"),
    ],
)
def test_a_round_is_one_world_of_all_nodes(ranks: tuple[int, ...], worlds: tuple[int, ...], problem: str) -> None:
    nodes = [
        crowd.Returned(i, 10.0 + i, rank, world) for i, (rank, world) in enumerate(zip(ranks, worlds, strict=True))
    ]
    formed = crowd.Formed(9.0, nodes)
    assert (formed.seconds, formed.problem) == (2.0, problem)


def test_a_recovery_is_as_slow_as_the_slowest_of_each_part(tmp_path: pathlib.Path) -> None:
    def agent(node: int, what: str, at: float) -> dict[str, Any]:
        return {"node": str(node), "agent": node, "what": what, "at": at}

    def worker(rank: int, loaded: float, stepped: float) -> dict[str, Any]:
        return {"node": str(rank), "rank": rank, "world": 2, "group": "x", "loaded": loaded, "stepped": stepped}

    group = recovery.Group.__new__(recovery.Group)
    group._lines = tmp_path / "lines"
    told = [agent(0, "form done", 5.0), worker(0, 6.0, 7.0), worker(1, 6.0, 7.0)]  # before the fault
    told += [agent(0, "stop", 10.5), agent(0, "stop done", 11.0), agent(1, "form done", 11.5)]
    told += [agent(0, "form done", 12.0), worker(0, 14.0, 15.0), worker(1, 13.0, 15.5)]
    group._lines.write_text("".join(json.dumps(line) + "\n" for line in told))
    steps = group.trains(2, since=10.0)
    assert steps is not None
    found = group.recovered(10.0, steps)
    assert found.total == 5.5
    assert found.parts == {"detect": 0.5, "stop": 0.5, "form": 1.0, "start": 2.0, "first_step": 1.5}
