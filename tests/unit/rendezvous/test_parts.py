"""The small parts around the protocol that need neither torch nor an API server."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from elasticjob_rendezvous import failures, identity, memory, signals, traindir
from elasticjob_rendezvous.round import changing, lease
from elasticjob_rendezvous.round.lease import Failure, Progress, SlotLease
from elasticjob_rendezvous.round.record import Member, Notice

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

RECORD = changing.sealed(changing.started("job", {0}), [Member(0, "00c0ffee")], "10.0.0.1:1")


def test_importing_the_entry_point_loads_neither_torch_nor_the_client() -> None:
    code = (
        "import sys, elasticjob_rendezvous as e; assert callable(e.get_handler()); "
        "assert callable(e.get_dynamic_handler()); "
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'kubernetes', 'urllib3')])"
    )
    env = {**os.environ, "PYTHONPATH": "rendezvous"}
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# The directory of the training script


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> traindir.TrainDir:
    monkeypatch.delenv(traindir.ENV, raising=False)
    return traindir.TrainDir()


def test_a_round_is_told_before_its_workers_start(train: traindir.TrainDir) -> None:
    assert os.environ[traindir.ENV] == str(train.path)
    train.begin(RECORD)
    assert json.loads((train.path / "round.json").read_text()) == {"number": 1, "nodes": 1, "reason": "Started"}


def test_a_notice_comes_and_goes_and_does_not_outlive_its_round(train: traindir.TrainDir) -> None:
    train.notice(Notice("n1", 30))
    assert json.loads((train.path / "notice.json").read_text()) == {"id": "n1", "graceSeconds": 30}
    train.notice(None)
    assert not (train.path / "notice.json").exists()
    train.notice(Notice("n2", 30))
    train.begin(RECORD)
    assert not (train.path / "notice.json").exists()


def test_progress_is_read_once_for_every_report(train: traindir.TrainDir) -> None:
    train.begin(RECORD)
    assert train.progress() is None
    report = {"round": 1, "step": 5, "samples": 320, "loss": 0.5, "checkpointed": "n1"}
    (train.path / "progress.json").write_text(json.dumps(report))
    assert train.progress() == (Progress(1, 5, 320, 0.5), "n1")
    assert train.progress() is None


@pytest.mark.parametrize("text", ["", "}{", "[]", "[" * 4000, '{"round": 1', "x" * 10_000])
def test_a_training_script_cannot_break_its_agent(train: traindir.TrainDir, text: str) -> None:
    (train.path / "progress.json").write_text(text)
    assert train.progress() is None


def test_workers_that_hang_are_made_to_write_their_stacks_and_nobody_else(train: traindir.TrainDir) -> None:
    got: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: got.append(number))
    try:
        for name in (os.getpid(), 0, -1, 2**40, "x"):
            (train.path / f"stacks.{name}").touch()
        train.notice(Notice("stacks.1.2", 5))
        train.notice(Notice("stacks.1.2", 5))
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert got == [signal.SIGUSR2]
    assert not (train.path / "notice.json").exists()
    train.begin(RECORD)
    assert not list(train.path.glob("stacks.*"))


@pytest.mark.parametrize(("text", "seconds"), [("0.25", 0.25), ("-1", 0.0), ("nan", 0.0), ("x" * 9999, 0.0), ("", 0.0)])
def test_how_long_work_takes_is_read_if_it_makes_sense(train: traindir.TrainDir, text: str, seconds: float) -> None:
    assert train.busy() == 0.0
    (train.path / "busy.json").write_text(text)
    assert train.busy() == seconds
    train.begin(RECORD)
    assert train.busy() == 0.0


def test_a_report_without_sense_has_no_progress(train: traindir.TrainDir) -> None:
    (train.path / "progress.json").write_text('{"round": "one", "step": {}, "checkpointed": 7}')
    assert train.progress() == (None, "")


# Who this is


def test_a_process_is_told_from_every_other() -> None:
    assert len({identity.nonce() for _ in range(100)}) == 100
    assert identity.pod_uid("5b3c") == "5b3c"
    assert identity.pod_uid("") != identity.pod_uid("")


def test_a_pods_uid_is_in_its_token(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"kubernetes.io": {"pod": {"uid": "5b3c"}}}).encode()).decode()
    token = tmp_path / "token"
    monkeypatch.setattr(identity, "_TOKEN", token)
    token.write_text(f"head.{claims.rstrip('=')}.signature")
    assert identity.pod_uid("") == "5b3c"
    token.write_text("no token")
    assert identity.pod_uid("").startswith("process-")


def test_the_address_is_the_one_on_the_way_to_the_api_server() -> None:
    assert identity.address("10.0.0.7", "https://127.0.0.1:6443") == "10.0.0.7"
    assert identity.address("", "https://127.0.0.1:6443") == "127.0.0.1"
    with pytest.raises(ValueError, match=r"--local-addr"):
        identity.address("", "")


# How workers failed


@dataclasses.dataclass
class Found:
    exitcode: int
    message: Any
    timestamp: int = 0
    error_file: str = "<N/A>"


@dataclasses.dataclass
class RunResult:
    failures: dict[int, Found]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("out of\nmemory", "out of memory"),
        ({"message": "no"}, "no"),
        ("x" * 9999, "x" * 512),
        ("To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html", ""),
    ],
)
def test_the_first_failure_is_found_in_torchs_own_frames(message: Any, text: str) -> None:
    run_result = RunResult({0: Found(1, "later", 2), 1: Found(-9, message, 1)})

    def below() -> Failure | None:
        return failures.found(3)

    found = below()
    assert run_result
    assert found == Failure(3, -9, text, time=1.0)


def test_a_traceback_is_kept_from_its_end_and_the_error_files_own_time(tmp_path: pathlib.Path) -> None:
    written = tmp_path / "error.json"
    written.write_text("{}")
    message = {"message": "ValueError: no", "extraInfo": {"py_callstack": "x" * 9999 + "\nValueError: no\n"}}
    run_result = RunResult({0: Found(1, message, 2, error_file=str(written))})

    found = failures.found(3)

    assert run_result
    assert found is not None
    assert found.traceback.endswith("xx\nValueError: no\n")
    assert len(found.traceback) == lease.MAX_TRACEBACK
    assert found.time == round(written.stat().st_mtime, 3)
    assert (
        lease.parse(0, "u/00c0ffee", lease.annotations(SlotLease(0, "u", "00c0ffee", failure=found))).failure == found
    )


def test_who_left_no_error_file_is_told_by_its_last_words() -> None:
    advice = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    run_result = RunResult({0: Found(1, advice, 20)})
    words = {21.0: "Traceback:\n  train()\nValueError: no"}

    found = failures.found(3, words.__getitem__)

    assert run_result
    assert found == Failure(3, 1, "ValueError: no", time=20.0, traceback=words[21.0])


def test_no_failure_is_no_error() -> None:
    assert failures.found(3, out_of_memory=True) is None


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("memory.events", "oom 9\noom_kill {}\noom_group_kill 9\n"),
        ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"),
    ],
)
def test_whom_the_kernel_killed_for_want_of_memory_is_counted(file: str, text: str, tmp_path: pathlib.Path) -> None:
    counter = tmp_path / file
    counter.parent.mkdir(exist_ok=True)
    counter.write_text(text.format(1))
    kills = memory.Kills(tmp_path)
    assert not kills.more(), "what was before is another's"

    counter.write_text(text.format(2))

    assert (kills.more(), kills.more()) == (True, False)


@pytest.mark.parametrize("text", [None, "", "oom_kill\n", "oom_kill many\n"])
def test_a_kernel_that_counts_no_kills_is_no_error(text: str | None, tmp_path: pathlib.Path) -> None:
    if text is not None:
        (tmp_path / "memory.events").write_text(text)

    assert not memory.Kills(tmp_path).more()


# SIGTERM


@pytest.fixture
def listener() -> Iterator[tuple[signals.Listener, threading.Event]]:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    leaving = threading.Event()
    made = signals.Listener(leaving.set)
    yield made, leaving
    made.close()
    signal.signal(signal.SIGTERM, before)


def test_without_a_handler_sigterm_ends_the_process_the_python_way(
    listener: tuple[signals.Listener, threading.Event],
) -> None:
    listener[0].listen()
    with pytest.raises(SystemExit) as ended:
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 143
    assert listener[1].wait(2)


def test_torchs_handler_is_left_alone_and_the_signal_is_told_all_the_same(
    listener: tuple[signals.Listener, threading.Event],
) -> None:
    told: list[int] = []
    listener[0].listen()
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    listener[0].listen()
    signal.raise_signal(signal.SIGTERM)
    assert told == [signal.SIGTERM]
    assert listener[1].wait(2)


def test_other_signals_are_no_leaving(listener: tuple[signals.Listener, threading.Event]) -> None:
    listener[0].listen()
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.raise_signal(signal.SIGUSR1)
    assert not listener[1].wait(0.1)
    signal.signal(signal.SIGUSR1, before)
