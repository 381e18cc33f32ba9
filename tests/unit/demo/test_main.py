"""The demo as a program: what it shows and returns when a promise is broken, and what it tells to do next."""

from __future__ import annotations

import pathlib
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

import demo.__main__ as program
from cluster import ClusterError, providers
from demo import checks, staging, story, watching

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeCluster:
    """Answers every kubectl with its arguments; logs of earlier containers can't be had."""

    kubeconfig = pathlib.Path("/somewhere/kubeconfig")

    def kubectl(self, *arguments: str) -> str:
        if "--previous" in arguments:
            raise ClusterError("no previous container")
        return "pod/one" if arguments[-1] == "--output=name" else f"answer to {' '.join(arguments)}"


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], None]], int]:
    """Run the program with one step in the place of all."""
    monkeypatch.setattr(watching, "Api", lambda _kubeconfig: None)
    monkeypatch.setattr(watching, "KINDS", {})
    monkeypatch.setattr(staging, "left_by_an_earlier_one", lambda _name, _namespace: False)
    monkeypatch.setattr(staging, "bring_up", lambda _name: FakeCluster())
    monkeypatch.setattr(staging, "prepare", lambda _cluster, _namespace: None)
    monkeypatch.delenv("CLUSTER", raising=False)

    def run(step: Callable[[Any], None]) -> int:
        monkeypatch.setattr(story, "STEPS", (story.Step("A step", step),))
        return program.main()

    return run


def broken(_scene: object) -> None:
    checks.equal("number of the round", expected=2, seen=3)


def test_a_story_that_goes_well(play: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert play(lambda scene: scene.told.update({"something": 1.25})) == 0

    said = capsys.readouterr().out
    assert "1. A step" in said
    assert "something: 1.2 s" in said
    assert "export KUBECONFIG=/somewhere/kubeconfig" in said
    assert said.rstrip().endswith("make clean-cluster")


def test_a_broken_promise_is_told_last_after_all_there_is_to_see(
    play: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(broken) == 1

    said = capsys.readouterr().out
    assert "--- log of pod/one\nanswer to --namespace elasticjob-demo logs pod/one --tail=40" in said
    assert "--- log of pod/one, before its last restart\nno previous container" in said
    assert "✗ number of the round: expected 2, saw 3" in said
    assert "All of it took" not in said
    assert "make clean-cluster" in said


def test_without_a_cluster_there_is_only_the_reason(
    play: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_name: str) -> None:
        raise ClusterError("needs root")

    monkeypatch.setattr(staging, "bring_up", fail)

    assert play(broken) == 1
    assert capsys.readouterr().out.rstrip().endswith("✗ needs root")


def test_ctrl_c_ends_without_a_traceback(play: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_scene: object) -> None:
        raise KeyboardInterrupt

    assert play(interrupted) == 130
    assert "interrupted" in capsys.readouterr().out


def test_in_somebody_elses_cluster_only_what_the_demo_made_is_taken_away(
    play: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER", "current")

    assert play(lambda _scene: None) == 0
    said = capsys.readouterr().out
    assert "kubectl delete namespace elasticjob-demo" in said
    assert "make clean-cluster" not in said


def test_an_earlier_demo_is_not_replaced_without_a_word(
    play: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "left_by_an_earlier_one", lambda _name, _namespace: True)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)

    assert play(lambda _scene: None) == 0
    assert "An earlier demo is still there (namespace elasticjob-demo): it is replaced" in capsys.readouterr().out


def test_a_person_may_keep_an_earlier_demo(
    play: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def control_c(_text: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(staging, "left_by_an_earlier_one", lambda _name, _namespace: True)
    monkeypatch.setattr(staging, "bring_up", lambda _name: pytest.fail("it was replaced"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", control_c)

    assert play(broken) == 130
    assert "interrupted; what was started goes on running" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "left"), [("namespace/elasticjob-demo\n", True), ("", False)])
def test_an_earlier_demo_is_known_by_its_namespace(
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    left: bool,  # noqa: FBT001 - a table's column
) -> None:
    cluster = types.SimpleNamespace(kubectl=lambda *_arguments: answer)
    monkeypatch.setattr(providers, "chosen", lambda: types.SimpleNamespace(attach=lambda _name: cluster))

    assert staging.left_by_an_earlier_one("demo", "elasticjob-demo") is left


def test_where_no_cluster_runs_there_is_no_earlier_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    def attach(_name: str) -> None:
        raise ClusterError("no cluster 'demo' is running")

    monkeypatch.setattr(providers, "chosen", lambda: types.SimpleNamespace(attach=attach))

    assert not staging.left_by_an_earlier_one("demo", "elasticjob-demo")
