"""The simulator: its model to the second, its figures, its picture, its command."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest

from elasticjob_operator.autoscaler import __main__ as command
from elasticjob_operator.autoscaler import snapshot
from elasticjob_operator.autoscaler.simulating import drawing, jobs, learned, policies, replaying, results, traces
from unit.autoscaler.cases import nodes

if TYPE_CHECKING:
    import pathlib

LINEAR = jobs.Profile({n: (float(n),) for n in range(1, 9)}, dict.fromkeys(range(1, 9), 1))
FIVE = jobs.Profile({n: (float(n), n / 2) for n in range(1, 6)}, {n: (n + 3) // 4 for n in range(1, 6)})


def job(name: str, submitted: float = 0.0, work: float = 800.0, **fields: Any) -> jobs.TraceJob:
    sizes: dict[str, Any] = {"minimum": 1, "maximum": 8, "requested": 4} | fields
    return jobs.TraceJob(name=name, submitted=submitted, work=work, profile=LINEAR, **sizes)


def run(*trace: jobs.TraceJob, policy: replaying.Policy | None = None, **fields: float) -> results.Result:
    events = [replaying.Event(0.0, nodes(2))]
    return replaying.Replay(list(trace), events, policy or policies.ours(), None, replaying.Options(**fields)).run()


def test_a_job_alone_takes_its_start_and_its_work() -> None:
    assert run(job("a")).times == [30 + 800 / 8]


def test_a_job_is_seen_by_the_next_decision_and_its_room_too() -> None:
    assert run(job("a", submitted=61.0)).times == [59 + 30 + 100]


def test_a_change_costs_its_time_and_is_counted() -> None:
    result = run(job("a", work=8000.0), job("b", submitted=50.0, work=100.0, minimum=4))

    assert result.finished[0].job.name == "b"
    assert result.finished[1].changes == 2
    assert result.changes == 1.0


def test_lost_cluster_nodes_cost_what_was_done_since_the_last_checkpoint() -> None:
    events = [replaying.Event(0.0, nodes(2)), replaying.Event(120.0, nodes(1))]
    result = replaying.Replay([job("a", work=2400.0)], events, policies.ours()).run()

    # 90 s at 8 are lost, then 30 s of change, and 2400 at 4.
    assert result.times == [120 + 30 + 600]
    assert result.lost_work == 90 * 8


def test_scattered_pods_are_slower() -> None:
    assert FIVE.rate(4, 1) == 4.0
    assert FIVE.rate(4, 2) == 2.0
    assert FIVE.rate(5, 2) == 5.0
    assert FIVE.curve.reach == 5


@pytest.mark.parametrize("name", ["ours", "equal", "tiresias", "optimus"])
def test_every_policy_finishes_everything(name: str) -> None:
    trace = [job(f"j{i}", submitted=100.0 * i, work=500.0 * (1 + i % 3)) for i in range(12)]
    result = traces.run(name, trace, [replaying.Event(0.0, nodes(2))], replaying.Options())

    assert len(result.finished) == 12
    assert result.busy > 0
    assert max(result.unfairness(8, 30)) > 0


def test_a_job_learned_on_the_way_finishes_a_little_later() -> None:
    knowledge = learned.Learned(lambda: 0.0, host=4)
    events = [replaying.Event(0.0, nodes(2))]
    result = replaying.Replay([job("a", work=8000.0)], events, policies.ours(), knowledge).run()

    assert 30 + 1000 < result.times[0] < 2 * 1030
    assert result.changes == 3


def test_figures_of_a_result() -> None:
    result = run(job("a"), job("b", submitted=600.0))

    assert result.mean == 130
    assert result.p99 == result.p99_linear == 130
    assert result.makespan == 730
    assert result.needless_waits == 0
    assert result.unfairness(8, 30) == [1.0, 1.0]


def test_a_percentile_lies_between_its_neighbours() -> None:
    assert results.interpolated([0.0, 10.0, 20.0], 0.75) == 15
    assert results.interpolated([7.0], 0.99) == 7


def test_a_picture_is_xml_with_a_band_for_each_job() -> None:
    text = drawing.timeline(run(job("a"), job("<b>", submitted=60.0)), 8)
    titles = [element.text for element in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}title")]  # noqa: S314 -- ours

    assert titles == ["a", "<b>"]


def test_a_trace_file_is_replayed_from_the_command_line(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, picture = tmp_path / "trace.csv", tmp_path / "out.svg"
    trace.write_text(
        "name,submitted_s,min_nodes,max_nodes,requested,hours_alone,exponent\na,0,1,8,4,2,0.9\nb,60,2,4,4,1,1\n"
    )

    assert command.main(["simulate", str(trace), "--cluster", "2x4", "--svg", str(picture)]) == 0

    shown = capsys.readouterr().out
    assert "ours" in shown
    assert "mean" in shown
    assert picture.read_text().startswith("<svg")


def test_a_policy_that_cannot_replay_a_trace_says_so_and_the_others_go_on(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("name,submitted_s,min_nodes,max_nodes,hours_alone,accelerators\na,0,1,2,1,2\n")

    assert command.main(["simulate", str(trace), "--policy", "equal", "ours"]) == 0
    assert "equal: knows only nodes of one accelerator\nours" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["equal", "optimus"])
def test_the_other_policies_keep_minimums_too(name: str) -> None:
    trace = [job("a", minimum=5), job("b", minimum=5)]
    result = traces.run(name, trace, [replaying.Event(0.0, nodes(2))], replaying.Options())

    assert {count for _, _, count in result.timeline if count} == {8}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no job"),
        ("name,submitted_s\na,0\n", "hours_alone"),
        ("name,submitted_s,min_nodes,max_nodes,hours_alone\na,zero,1,2,1\n", "line 2"),
        ("name,submitted_s,min_nodes,max_nodes,hours_alone\na,0,3,2,1\n", "line 2"),
        ("name,submitted_s,min_nodes,max_nodes,hours_alone\na,0,1,2,nan\n", "line 2: hours_alone is nan"),
        ("name,submitted_s,min_nodes,max_nodes,hours_alone\na,0,1,2,1\na,0,1,2,1\n", "line 3: a second job named 'a'"),
        ("name,submitted_s,min_nodes,max_nodes,hours_alone\na,0,1\n", "line 2: max_nodes is ''"),
        ("name,submitted_s,min_nodes,max_nodes,hours_alone\na,0,1.5,2,1\n", "line 2: min_nodes is 1.5"),
        ("name,submitted_s,min_nodes,max_nodes,hours_alone,prio\na,0,1,2,1,1\n", "unknown columns: prio; there are"),
        ("name,submitted_s,min_nodes,max_nodes,hours_alone\n\udcff,0,1,2,1\n", "not a CSV file in UTF-8"),
    ],
)
def test_a_bad_trace_is_told_with_its_line(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(text, encoding="utf-8", errors="surrogateescape")

    assert command.main(["simulate", str(trace)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--interval=0", "--interval=nan", "--resize-cost=-1", "--resize-cost=soon"])
def test_seconds_that_are_none_are_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["simulate", "examples/trace.csv", flag])

    assert flag.partition("=")[0] in capsys.readouterr().err


def test_a_picture_that_cannot_be_written_is_told_before_the_replay(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("name,submitted_s,min_nodes,max_nodes,hours_alone\na,0,1,2,1\n")

    assert command.main(["simulate", str(trace), f"--svg={tmp_path}"]) == 2
    said = capsys.readouterr()
    assert (said.out, str(tmp_path) in said.err) == ("", True)


def test_a_cluster_is_described_with_its_spot_part() -> None:
    events = traces.cluster("2x8", "1x4")

    assert [(n.free, n.volatile) for n in events[0].cluster_nodes] == [(8, False), (8, False), (4, True)]
    assert isinstance(events[0].cluster_nodes[0], snapshot.ClusterNode)
