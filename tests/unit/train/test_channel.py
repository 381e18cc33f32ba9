"""The agent-script directory, from the script's side."""

from __future__ import annotations

import errno
import json
import pathlib
import shutil
import time
from typing import Any

import pytest
import torch

from elasticjob_rendezvous import train
from elasticjob_rendezvous.train import channel


def put(directory: pathlib.Path, name: str, **data: Any) -> None:
    """Write as the agent does: a whole new file in the place of the old."""
    draft = directory / f"{name}.draft"
    draft.write_text(json.dumps(data))
    draft.replace(directory / name)


def progress(directory: pathlib.Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "progress.json").read_text())
    return found


@pytest.fixture
def rank0(tmp_path: pathlib.Path) -> train.Channel:
    put(tmp_path, "round.json", number=4, nodes=3, reason="PodLost")
    return train.Channel(tmp_path, rank=0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_the_round_is_told(rank0: train.Channel) -> None:
    assert rank0.round_info() == train.RoundInfo(number=4, nodes=3, reason="PodLost")


def test_a_notice_is_wanted_until_it_is_answered(rank0: train.Channel, tmp_path: pathlib.Path) -> None:
    assert rank0.checkpoint_wanted() is None
    put(tmp_path, "notice.json", id="n1", graceSeconds=30)
    notice = rank0.checkpoint_wanted()
    assert notice == train.Notice(id="n1", grace_seconds=30)
    assert rank0.checkpoint_wanted() == notice

    rank0.checkpointed(notice)
    assert rank0.checkpoint_wanted() is None
    assert progress(tmp_path)["checkpointed"] == "n1"

    put(tmp_path, "notice.json", id="n2", graceSeconds=5)
    assert rank0.checkpoint_wanted() == train.Notice(id="n2", grace_seconds=5)
    (tmp_path / "notice.json").unlink()
    assert rank0.checkpoint_wanted() is None


def test_how_long_it_took_to_have_the_state_is_told_with_the_first_step(
    rank0: train.Channel, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = (tmp_path / "round.json").stat().st_mtime
    monkeypatch.setattr(time, "time", lambda: began + 2.5)

    rank0.restored()
    rank0.report_progress(step=7, samples=448)

    assert progress(tmp_path)["restored"] == pytest.approx(2.5)
    train.Channel(None, rank=0).restored()  # under plain torchrun it has no effect
    train.Channel(tmp_path / "gone", rank=0).restored()


def test_a_standing_notice_is_read_once(
    rank0: train.Channel, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "notice.json", id="n1", graceSeconds=30)
    rank0.checkpoint_wanted()
    monkeypatch.setattr(rank0, "_read", lambda name: pytest.fail(f"{name} read again"))

    assert rank0.checkpoint_wanted() is not None


def test_the_first_report_of_a_round_is_written_at_once(rank0: train.Channel, tmp_path: pathlib.Path) -> None:
    rank0.report_progress(step=7, samples=448, loss=torch.tensor(0.5))

    assert progress(tmp_path) == {"round": 4, "step": 7, "samples": 448, "loss": 0.5, "checkpointed": ""}
    assert not list(tmp_path.glob("progress.json.*"))


def test_later_reports_are_limited_in_rate(rank0: train.Channel, tmp_path: pathlib.Path, clock: list[float]) -> None:
    for step in range(1, 6):
        rank0.report_progress(step=step, samples=step, loss=0.1)
        clock[0] += 0.3

    assert progress(tmp_path)["step"] == 5  # at 100.0 and 101.2; steps 2 to 4 came within a second


def test_the_last_report_is_written_when_the_process_ends(
    rank0: train.Channel, tmp_path: pathlib.Path, clock: list[float]
) -> None:
    rank0.report_progress(step=1, samples=10, loss=0.1)
    rank0.report_progress(step=2, samples=20, loss=0.1)
    rank0.flush()
    assert progress(tmp_path)["step"] == 2

    (tmp_path / "progress.json").unlink()
    rank0.flush()
    assert not (tmp_path / "progress.json").exists()  # nothing new


def test_an_answer_carries_the_latest_report(rank0: train.Channel, tmp_path: pathlib.Path, clock: list[float]) -> None:
    rank0.report_progress(step=1, samples=10, loss=0.1)
    rank0.report_progress(step=2, samples=20, loss=0.1)
    rank0.checkpointed(train.Notice(id="n1", grace_seconds=1))

    assert progress(tmp_path)["step"] == 2
    assert progress(tmp_path)["checkpointed"] == "n1"


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), None])
def test_a_loss_that_json_cannot_hold_is_null(rank0: train.Channel, tmp_path: pathlib.Path, loss: float | None) -> None:
    rank0.report_progress(step=1, samples=1, loss=loss)

    assert progress(tmp_path)["loss"] is None


def test_other_ranks_write_nothing_and_do_not_repeat_an_answered_notice(tmp_path: pathlib.Path) -> None:
    put(tmp_path, "notice.json", id="n1", graceSeconds=30)
    rank1 = train.Channel(tmp_path, rank=1)
    notice = rank1.checkpoint_wanted()
    assert notice is not None
    rank1.report_progress(step=1, samples=1, loss=0.1)
    rank1.checkpointed(notice)

    assert rank1.checkpoint_wanted() is None
    assert [path.name for path in tmp_path.iterdir()] == ["notice.json"]


def test_an_answer_without_an_id_is_to_the_notice_that_is_known(tmp_path: pathlib.Path) -> None:
    rank1 = train.Channel(tmp_path, rank=1)
    agreed = train.Notice(id="", grace_seconds=30)
    rank1.checkpointed(agreed)
    put(tmp_path, "notice.json", id="n1", graceSeconds=30)
    assert rank1.checkpoint_wanted() is not None, "not heard of when another was answered"

    rank1.checkpointed(agreed)
    assert rank1.checkpoint_wanted() is None


def test_a_report_that_cannot_be_written_does_not_end_training(
    rank0: train.Channel,
    tmp_path: pathlib.Path,
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(pathlib.Path, "write_text", full)
        for step in (1, 2, 3):
            clock[0] += 1
            rank0.report_progress(step=step, samples=step)
        rank0.checkpointed(train.Notice(id="n1", grace_seconds=1))
    assert caplog.text.count("No space left") == 1

    rank0.flush()
    assert (progress(tmp_path)["step"], progress(tmp_path)["checkpointed"]) == (3, "n1")


def test_a_directory_that_is_gone_is_no_error(rank0: train.Channel, tmp_path: pathlib.Path) -> None:
    shutil.rmtree(tmp_path)
    rank0.report_progress(step=1, samples=1)
    assert rank0.checkpoint_wanted() is None


def test_without_an_agent_everything_is_without_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(channel.TRAIN_DIR, raising=False)
    channel._channel.cache_clear()

    assert train.round_info() is None
    assert train.checkpoint_wanted() is None
    assert train.agree_on_checkpoint() is None
    train.report_progress(step=1, samples=1, loss=0.1)
    train.checkpointed(train.Notice(id="n1", grace_seconds=1))


def test_the_functions_use_the_agents_directory(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(channel.TRAIN_DIR, str(tmp_path))
    monkeypatch.setenv("RANK", "0")
    channel._channel.cache_clear()
    put(tmp_path, "notice.json", id="n1", graceSeconds=30)

    notice = train.agree_on_checkpoint()
    assert notice is not None
    assert notice.id == "n1"
    train.report_progress(step=3, samples=3)
    train.checkpointed(notice)
    assert progress(tmp_path)["checkpointed"] == "n1"
    channel._channel.cache_clear()


def test_each_nodes_first_worker_tells_how_long_its_work_takes(tmp_path: pathlib.Path, clock: list[float]) -> None:
    first = train.Channel(tmp_path, rank=4, local_rank=0)
    second = train.Channel(tmp_path, rank=5, local_rank=1)

    second.report_progress(step=1, samples=1, busy=9.0)
    assert not (tmp_path / "busy.json").exists()
    first.report_progress(step=1, samples=1, busy=0.2)
    assert (tmp_path / "busy.json").read_text() == "0.2"
    first.report_progress(step=2, samples=2, busy=4.2)
    assert (tmp_path / "busy.json").read_text() == "0.2"
    clock[0] += 1.0
    first.report_progress(step=3, samples=3, busy=0.4)
    assert (tmp_path / "busy.json").read_text() == "0.4"
    assert not (tmp_path / "progress.json").exists()
