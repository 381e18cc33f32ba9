"""`elasticjob simulate`: what it reads, what it refuses and how, what it shows."""

from __future__ import annotations

import pathlib
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from elasticjob_operator.api import settings
from elasticjob_operator.autoscaler import __main__ as command
from elasticjob_operator.autoscaler.simulating import clusters, installed

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLES = ROOT / "examples/simulate"
NEEDED = "name,submitted_s,min_nodes,max_nodes,hours_alone"
Shown = pytest.CaptureFixture[str]


@pytest.fixture
def trace(tmp_path: pathlib.Path) -> pathlib.Path:
    return written(tmp_path / "trace.csv", f"{NEEDED},queue\na,0,1,8,2,red\nb,60,2,4,1,blue\n")


def written(path: pathlib.Path, text: str) -> pathlib.Path:
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return path


def simulate(*arguments: object) -> int:
    return command.main(["simulate", *map(str, arguments)])


def test_a_trace_is_replayed_and_shown_by_run_and_queue(trace: pathlib.Path, capsys: Shown) -> None:
    assert simulate(trace, "--cluster=2x4") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("jobs: 2, accelerators: 8")
    assert lines[2].split() == ["jobs", "mean", "wait", "p99", "makespan", "changes", "GPU", "hours", "share"]
    assert [line.split()[:2] for line in lines[3:]] == [[n, c] for n in ("ours", "equal") for n, c in rows(n)]


def rows(name: str) -> list[tuple[str, str]]:
    return [(name, "2"), ("blue", "1"), ("red", "1")]


def test_settings_are_compared_side_by_side_in_table_and_picture(
    tmp_path: pathlib.Path, trace: pathlib.Path, capsys: Shown
) -> None:
    before, picture = ROOT / "charts/elasticjob/values.yaml", tmp_path / "out.svg"
    after = written(tmp_path / "after.yaml", "autoscaler: {queues: [{name: red, limit: 1}, {name: blue}]}")

    flags = ("--cluster=2x4", "--values", before, after, "--policy=ours", f"--svg={picture}")
    assert simulate(trace, *flags) == 0

    lines = capsys.readouterr().out.splitlines()[3:]
    assert [line.split()[0] for line in lines] == [str(before), "blue", "red", str(after), "blue", "red"]
    assert float(lines[5].split()[2]) > 2 * float(lines[2].split()[2])
    texts = [element.text for element in ET.fromstring(picture.read_text()).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314 -- ours
    assert [str(path) in " ".join(map(str, texts)) for path in (before, after)] == [True, True]


def test_a_picture_shows_each_job_twice_and_escapes_its_name(tmp_path: pathlib.Path) -> None:
    trace, picture = written(tmp_path / "t.csv", f"{NEEDED}\na,0,1,8,2\n<b>,60,2,4,1\n"), tmp_path / "out.svg"

    assert simulate(trace, "--cluster=2x4", "--policy=ours", f"--svg={picture}") == 0

    titles = [e.text for e in ET.fromstring(picture.read_text()).iter("{http://www.w3.org/2000/svg}title")]  # noqa: S314 -- ours
    assert titles == ["a", "<b>", "a", "<b>"]


def test_jobs_that_find_no_room_are_named_and_drawn_all_the_same(tmp_path: pathlib.Path, capsys: Shown) -> None:
    trace = written(tmp_path / "t.csv", f"{NEEDED}\nwhale,0,9,9,2\n")

    assert simulate(trace, "--cluster=2x4", "--policy=ours", f"--svg={tmp_path / 'out.svg'}") == 0
    assert "no job finished  1 not finished (whale): is there room for a minimum?" in capsys.readouterr().out
    assert (tmp_path / "out.svg").read_text().startswith("<svg")


def test_a_policy_that_cannot_replay_a_trace_says_so_and_the_others_go_on(
    tmp_path: pathlib.Path, capsys: Shown
) -> None:
    trace = written(tmp_path / "trace.csv", f"{NEEDED},accelerators\na,0,1,2,1,2\n")

    assert simulate(trace, "--policy", "equal", "ours") == 0
    assert "equal: knows only nodes of one accelerator, and one type of them\nours" in capsys.readouterr().out


def test_quotas_above_the_cluster_and_queues_that_are_not_set_are_noted(
    tmp_path: pathlib.Path, trace: pathlib.Path, capsys: Shown
) -> None:
    values = written(tmp_path / "v.yaml", "autoscaler: {queues: [{name: red, quota: 12}, {name: green, quota: 4}]}")

    assert simulate(trace, "--cluster=2x4", f"--values={values}") == 0

    shown = capsys.readouterr().out
    assert "(the quotas add up to 16, the cluster has 8 accelerators: each counts as 50% of itself" in shown
    assert "(not among the queues, so with weight 1 and no limit: blue)" in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no job"),
        ("name,submitted_s\na,0\n", "hours_alone"),
        (f"{NEEDED}\na,zero,1,2,1\n", "line 2: submitted_s is 'zero', which is no number"),
        (f"{NEEDED}\na,0,3,2,1\n", "line 2: min_nodes is 3, and must be from 1 to 2"),
        (f"{NEEDED}\na,0,1,2,nan\n", "line 2: hours_alone is nan"),
        (f"{NEEDED}\na,0,1,2,1\na,0,1,2,1\n", "line 3: a second job named 'a'"),
        (f"{NEEDED}\na,0,1\n", "line 2: max_nodes is ''"),
        (f"{NEEDED}\na,0,1,2,1,7\n", "line 2: there are more values than columns"),
        (f"{NEEDED}\n,0,1,2,1\n", "line 2: name is empty"),
        (f"{NEEDED}\na,0,1.5,2,1\n", "line 2: min_nodes is 1.5"),
        (f"{NEEDED},prio\na,0,1,2,1,1\n", "unknown columns: prio; there are"),
        (f"{NEEDED}\n\udcff,0,1,2,1\n", "not a CSV file in UTF-8"),
    ],
)
def test_a_bad_trace_is_told_with_line_and_column(tmp_path: pathlib.Path, capsys: Shown, text: str, said: str) -> None:
    assert simulate(written(tmp_path / "trace.csv", text)) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no cluster node in it"),
        ("[]", "there is no cluster node in it"),
        ("count: 1", "line 1, column 1: wanted is a list"),
        ("- 4x4", "line 1, column 3: wanted is a mapping with count, accelerators"),
        ("- {count: 2}", "line 1, column 3: accelerators must be given"),
        ("- count: 2\n  accelerators: 0", "line 2, column 17: wanted is a number from 1 to 1024, not 0"),
        ("- {count: 1.5, accelerators: 4}", "line 1, column 11: wanted is a whole number, not 1.5"),
        ("- {count: yes, accelerators: 4}", "line 1, column 11: wanted is a number, not True"),
        ("- {count: 2, accelerators: 4, kind: A}", "line 1, column 31: kind is not known: there are count"),
        ("- {count: 2, count: 3, accelerators: 4}", "line 1, column 14: count comes twice"),
        ("- {count: 2, accelerators: 4, spot: perhaps}", "line 1, column 37: wanted is true or false"),
        ("- {count: 2, accelerators: 4, speed: .nan}", "line 1, column 38: wanted is a number, not nan"),
        ("- {count: 1%s, accelerators: 4}" % ("0" * 400), "line 1, column 11: wanted is a number from 1 to"),
        ("- {count: 2001-99-99, accelerators: 4}", "line 1, column 11"),
        ('- {count: !!int "", accelerators: 4}', "line 1, column 11"),
        ("- {count: [[[1]]], accelerators: 4}", "line 1, column 11: wanted is a single value"),
        ("- {count: 2, accelerators: 4, type: 7}", "line 1, column 37: wanted is a word, not 7"),
        ("- {count: 2", "line 1, column 12"),
        ("- &a [*a]", "line 1, column 3: wanted is a mapping"),
        ("- {count: !!python/object:os.system x, accelerators: 4}", "line 1, column 11"),
        ("- \udcff", "not in UTF-8"),
    ],
)
def test_a_bad_cluster_file_is_told_with_line_and_column(
    tmp_path: pathlib.Path, trace: pathlib.Path, capsys: Shown, text: str, said: str
) -> None:
    path = written(tmp_path / "cluster.yaml", text)

    assert simulate(trace, "--cluster", path) == 2
    told = capsys.readouterr().err
    assert (told.startswith(str(path)), said in told) == (True, True)


@pytest.mark.parametrize("flag", ["--cluster=0x4", "--cluster=4x0", "--cluster=99999x4", "--cluster=4", "--spot=0x4"])
def test_a_cluster_without_accelerators_or_of_no_size_is_refused(flag: str, trace: pathlib.Path, capsys: Shown) -> None:
    assert simulate(trace, flag) == 2
    assert f"'{flag.partition('=')[2]}' is no cluster: wanted is NODESxACCELERATORS" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("autoscaler: {queue: []}", "line 1, column 14: queue is not known: there are mode"),
        ("autoscaler: {mode: loud}", "line 1, column 20: autoscaler.mode: wanted is on, dry-run or off"),
        (
            "autoscaler:\n  queues:\n  - {name: red}\n  - {name: red}",
            "line 3, column 3: autoscaler.queues: there are two",
        ),
        ("autoscaler: {queues: 7}", "line 1, column 22: autoscaler.queues: wanted is"),
        ("autoscaler: {queues: [{name: red, quota: 2024-01-01}]}", "line 1, column 22: autoscaler.queues: "),
        ("autoscaler: {volatileMinimum: 3}", "line 1, column 31: autoscaler.volatileMinimum: wanted is true or false"),
        ("autoscaler: {accelerators: [7]}", "line 1, column 28: autoscaler.accelerators: "),
        ("autoscaler: [", "line 1, column 14"),
        ("[]", "line 1, column 1: wanted is a mapping"),
    ],
)
def test_bad_settings_are_told_with_line_and_column(
    tmp_path: pathlib.Path, trace: pathlib.Path, capsys: Shown, text: str, said: str
) -> None:
    values = written(tmp_path / "values.yaml", text)

    assert simulate(trace, "--values", values) == 2
    assert f"{values}, {said}" in capsys.readouterr().err


def test_settings_for_nobody_are_refused(trace: pathlib.Path, capsys: Shown) -> None:
    assert simulate(trace, "--values", EXAMPLES / "quotas.yaml", "--policy=equal") == 2
    assert "--values are settings of the policy ours" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--interval=0", "--interval=nan", "--resize-cost=-1", "--resize-cost=soon"])
def test_seconds_that_are_none_are_refused(flag: str, trace: pathlib.Path, capsys: Shown) -> None:
    with pytest.raises(SystemExit):
        simulate(trace, flag)

    assert flag.partition("=")[0] in capsys.readouterr().err


def test_a_picture_that_cannot_be_written_is_told_before_the_replay(
    tmp_path: pathlib.Path, trace: pathlib.Path, capsys: Shown
) -> None:
    assert simulate(trace, f"--svg={tmp_path}") == 2
    said = capsys.readouterr()
    assert (said.out, str(tmp_path) in said.err) == ("", True)


def test_a_cluster_in_short_has_a_stable_and_a_spot_part() -> None:
    listed = clusters.read("2x8", "1x4").cluster_nodes

    assert [(n.free, n.volatile) for n in listed] == [(8, False), (8, False), (4, True)]


def test_a_cluster_of_several_types_domains_and_speeds() -> None:
    cluster = clusters.read(str(EXAMPLES / "cluster.yaml"))
    found = [(n.kind, n.domain, n.volatile, cluster.speeds[n.name]) for n in cluster.cluster_nodes]

    assert (cluster.accelerators, len({n.name for n in cluster.cluster_nodes})) == (24, 6)
    assert sorted(set(found)) == [
        ("A100", "", False, 2.5),
        ("T4", "rack-1", False, 1.0),
        ("T4", "rack-2", False, 1.0),
        ("T4", "rack-2", True, 1.0),
    ]


def test_settings_are_those_that_the_operator_would_have(tmp_path: pathlib.Path) -> None:
    text = "replicas: 2\nautoscaler: {mode: dry-run, queues: [{name: red, quota: 8}], volatileMinimum: true}"
    wish = installed.read(written(tmp_path / "values.yaml", text))
    flags: list[Any] = ["--autoscaler=dry-run", '--queues=[{"name": "red", "quota": 8}]', "--volatile-minimum=true"]

    assert wish == settings.parse(flags, {}).autoscaler
    default = settings.parse([], {}).autoscaler
    assert installed.read(None) == installed.read(written(tmp_path / "none.yaml", "")) == default
    assert installed.read(ROOT / "charts/elasticjob/values.yaml") == default
