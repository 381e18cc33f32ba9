"""What the terminal shows: each thing once, plain text into a pipe, and a table that lines up."""

from __future__ import annotations

import dataclasses
import io
import pathlib
from typing import TYPE_CHECKING, Any

import pytest

from demo import telling, watching
from elasticjob_rendezvous.round.record import Reason
from support.e2e_records import lease, member, open_record, sealed_record

if TYPE_CHECKING:
    from demo.watching import View


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def teller(out: io.StringIO) -> telling.Teller:
    return telling.Teller(out)


@pytest.fixture
def view(monkeypatch: pytest.MonkeyPatch) -> View:
    monkeypatch.setattr(watching, "Api", lambda _kubeconfig: None)
    return watching.View(pathlib.Path(), namespace="ns", job="digits")


def pod(phase: str, uid: str = "first", **state: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "digits-0-0", "uid": uid},
        "status": {"phase": phase, "containerStatuses": [{"state": state}]},
    }


def test_a_pods_life_is_told_once(teller: telling.Teller, view: View, out: io.StringIO) -> None:
    report = telling.Reporter(teller, view)
    for _ in range(2):
        report("pods", "ADDED", pod("Pending"), 10.0)
        report("pods", "MODIFIED", pod("Running", running={}), 12.1)
        report("pods", "MODIFIED", pod("Succeeded", terminated={"exitCode": 0}), 13.0)
        report("pods", "DELETED", pod("Succeeded", terminated={"exitCode": 0}), 14.0)

    told = [line.split(" s  ", 1)[1] for line in out.getvalue().splitlines()]
    assert told == [
        "the pod digits-0-0 is created",
        "pod digits-0-0 runs, 2.1 s later",
        "pod digits-0-0 has ended with exit code 0",
        "pod digits-0-0 is gone",
    ]


def test_a_pod_that_replaces_one_of_its_name_is_told_as_another(
    teller: telling.Teller, view: View, out: io.StringIO
) -> None:
    report = telling.Reporter(teller, view)
    report("pods", "ADDED", pod("Running"), 10.0)
    report("pods", "DELETED", pod("Running"), 11.0)
    report("pods", "ADDED", pod("Pending", uid="second"), 12.0)
    report("pods", "MODIFIED", pod("Running", uid="second"), 13.0)

    told = [line.split(" s  ", 1)[1] for line in out.getvalue().splitlines()]
    assert told[-2:] == ["another pod digits-0-0 is created", "pod digits-0-0 runs, 1.0 s later"]


def test_a_rounds_life_is_told_once(teller: telling.Teller, view: View, out: io.StringIO) -> None:
    report = telling.Reporter(teller, view)
    view.history.see_record(open_record(1, Reason.STARTED), 1.0)
    report("configmaps", "ADDED", {}, 1.0)
    view.history.see_record(sealed_record(1, member(0), member(1), reason=Reason.STARTED), 2.0)
    report("configmaps", "MODIFIED", {}, 2.0)
    view.history.see_lease(lease(0, round_=1, step=1), 4.5)
    report("leases", "MODIFIED", {}, 4.5)
    report("leases", "MODIFIED", {}, 5.5)
    view.history.see_lease(lease(0, round_=1, step=40), 14.5)
    report("leases", "MODIFIED", {}, 14.5)

    told = [line.split(" s  ", 1)[1] for line in out.getvalue().splitlines()]
    assert told == [
        "round 1 is opened (Started: the job's first round)",
        "round 1 is sealed, in rank order: slots 0, 1",
        "round 1 trains: step 1, 3.5 s after it was opened",
        "step 40 on 2 nodes, loss 0.500",
    ]


def test_a_long_wait_says_what_it_waits_for_but_not_all_the_time(
    teller: telling.Teller, out: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "QUIET_SECONDS", 0.0)
    teller.waiting("the third pod", 12.4)
    monkeypatch.setattr(telling, "QUIET_SECONDS", 60.0)
    teller.waiting("the third pod", 13.4)

    assert out.getvalue().count("\n") == 1
    assert "… waiting for the third pod (12 s)" in out.getvalue()


def test_every_reason_of_the_protocol_is_explained() -> None:
    assert telling.WHY.keys() == {reason.value for reason in Reason}


def test_the_table_has_a_line_for_each_round(teller: telling.Teller, view: View, out: io.StringIO) -> None:
    view.history.see_record(sealed_record(1, member(0), member(1), reason=Reason.STARTED), 1.0)
    view.history.see_lease(lease(0, round_=1, step=1), 7.25)
    view.history.see_record(open_record(2, Reason.POD_LOST), 9.0)
    teller.rounds(view.history.rounds)

    assert out.getvalue().splitlines() == [
        "  round  nodes  slots  came  went  why                             first step  after",
        "  1      2      0,1    0,1   -     Started: the job's first round  1           6.2 s",
        "  2      -      -      -     -     PodLost: a pod was lost         -           -",
    ]


def test_the_table_shows_a_pod_lost_and_its_successor_join(
    teller: telling.Teller, view: View, out: io.StringIO
) -> None:
    view.history.see_record(sealed_record(1, member(0), member(1), reason=Reason.STARTED), 1.0)
    view.history.see_record(sealed_record(2, member(1), reason=Reason.POD_LOST), 2.0)
    successor = dataclasses.replace(member(0), nonce="5ccce550")
    view.history.see_record(sealed_record(3, successor, member(1), reason=Reason.NODE_JOINED), 3.0)
    teller.rounds(view.history.rounds)

    columns = [line.split()[2:5] for line in out.getvalue().splitlines()]
    assert columns == [["slots", "came", "went"], ["0,1", "0,1", "-"], ["1", "-", "0"], ["0,1", "0", "-"]]


def test_there_is_no_colour_in_a_pipe(teller: telling.Teller, out: io.StringIO) -> None:
    with teller.step("1. A step"):
        teller.line("red", style=telling.RED)

    assert "\033" not in out.getvalue()
