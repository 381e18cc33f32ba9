"""The directory through which an agent and its workers talk: three small JSON files (docs/architecture.md, at its end).

Whoever writes replaces a file as a whole, so a reader sees the old text or the new one, never half of one. Nothing here
waits, locks or talks to the network, and nothing here imports the agent's side.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import json
import logging
import math
import os
import pathlib
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

logger = logging.getLogger("elasticjob_rendezvous")

TRAIN_DIR = "ELASTICJOB_TRAIN_DIR"
"""Environment variable with the directory; unset where no ElasticJob agent started this process."""

REPORT_INTERVAL = 1.0
"""Seconds between two written reports: a fast step (milliseconds) must not turn into a file write each."""


@dataclasses.dataclass(frozen=True)
class Notice:
    """A checkpoint is wanted. Who answers within ``grace_seconds`` loses no step to the round that comes next.

    ``id`` is empty on ranks that know of the notice only through :func:`agree_on_checkpoint`.
    """

    id: str
    grace_seconds: int


@dataclasses.dataclass(frozen=True)
class RoundInfo:
    """The round in which this process trains: its number, its nodes (agents, not workers), why it was opened."""

    number: int
    nodes: int
    reason: str


class Channel:
    """One worker's end of the directory.

    Invariant: only global rank 0 writes ``progress.json``, only local rank 0 ``busy.json``, and nobody anything else.
    """

    def __init__(self, directory: pathlib.Path | None, *, rank: int, local_rank: int = 0) -> None:
        self._directory = directory
        self._rank = rank
        self._local_rank = local_rank
        self._busy = 0.0
        self._busy_at = -math.inf
        self._notice: tuple[tuple[int, int], Notice] | None = None  # with the inode and mtime that it was read at
        self._answered = ""
        self._report: dict[str, Any] = {}
        self._restored: float | None = None
        self._written_at = -math.inf
        self._held_back = False
        self._complained = False

    @classmethod
    def from_environment(cls) -> Channel:
        directory = os.environ.get(TRAIN_DIR)
        return cls(
            pathlib.Path(directory) if directory else None, rank=_number("RANK"), local_rank=_number("LOCAL_RANK")
        )

    def round_info(self) -> RoundInfo | None:
        data = self._read("round.json")
        return data and RoundInfo(number=data["number"], nodes=data["nodes"], reason=data["reason"])

    def checkpoint_wanted(self) -> Notice | None:
        notice = self._current_notice()
        return None if notice is None or notice.id == self._answered else notice

    def checkpointed(self, notice: Notice) -> None:
        """Answer *notice*. On ranks other than 0 this only stops :meth:`checkpoint_wanted` from repeating it.

        A notice that is known by agreement has no id: it is the one that this rank's agent tells of, if it does yet.
        """
        current = self._current_notice()
        self._answered = notice.id or (current.id if current else self._answered)
        self._write()

    def restored(self) -> None:
        """Note how long after its agent has joined the round this process got so far. Both have one clock."""
        if self._directory is not None:
            with contextlib.suppress(OSError):
                self._restored = max(0.0, time.time() - (self._directory / "round.json").stat().st_mtime)

    def report_progress(
        self, *, step: int, samples: int, loss: float | torch.Tensor | None = None, busy: float | None = None
    ) -> None:
        if self._directory is None:
            return
        if busy is not None and self._local_rank == 0:
            self._tell_busy(busy)
        if self._rank != 0:
            return
        first = not self._report
        if first:
            atexit.register(self.flush)
        self._report = {"step": step, "samples": samples, "loss": loss}
        self._held_back = True
        if first or time.monotonic() - self._written_at >= REPORT_INTERVAL:
            self._write()

    def _tell_busy(self, seconds: float) -> None:
        """A mean in which the last twenty steps weigh most: one slow step is none of a slow node."""
        self._busy = seconds if not self._busy else self._busy + (seconds - self._busy) / 20
        now = time.monotonic()
        if now - self._busy_at >= REPORT_INTERVAL:
            self._busy_at = now
            self._replace("busy.json", f"{self._busy:.4g}")

    def flush(self) -> None:
        """Write the last report, if it was held back: at the end of the process it is the final one."""
        if self._held_back:
            self._write()

    def _current_notice(self) -> Notice | None:
        """The notice as it stands; the file is read again only when it is another one. One ``stat`` a call."""
        if self._directory is None:
            return None
        try:
            status = (self._directory / "notice.json").stat()
        except OSError:
            self._notice = None
            return None
        version = (status.st_ino, status.st_mtime_ns)
        if self._notice is None or self._notice[0] != version:
            data = self._read("notice.json")  # may be a newer one than the version says: then it is read once more
            self._notice = data and (version, Notice(id=data["id"], grace_seconds=data["graceSeconds"]))
        return self._notice and self._notice[1]

    def _read(self, name: str) -> Any:
        if self._directory is None:
            return None
        try:
            return json.loads((self._directory / name).read_text("utf-8"))
        except OSError:
            return None

    def _write(self) -> None:
        """Write the last report, with the round that it belongs to and the last answer.

        One that can't be written is tried again with the next: training must not end because a disk is full.
        """
        if self._directory is None or self._rank != 0:
            return
        self._written_at = time.monotonic()
        report = {"step": 0, "samples": 0, "loss": None, **self._report, "checkpointed": self._answered}
        report["round"] = self._round_number
        report["loss"] = _finite(report["loss"])
        if self._restored is not None:
            report["restored"] = self._restored
        self._held_back = not self._replace("progress.json", json.dumps(report))

    def _replace(self, name: str, text: str) -> bool:
        """Write a file of the directory as a whole; whether there is nothing to try again."""
        if self._directory is None:
            return True
        draft = self._directory / f"{name}.{os.getpid()}"
        try:
            draft.write_text(text, "utf-8")
            draft.replace(self._directory / name)
        except FileNotFoundError:  # the agent is gone, and its directory with it
            return True
        except OSError as error:
            if not self._complained:
                self._complained = True
                logger.warning("progress can't be reported: %s", error)
            return False
        return True

    @functools.cached_property
    def _round_number(self) -> int:
        """Read once: workers are new processes in every round."""
        info = self.round_info()
        return info.number if info else 0


def _number(variable: str) -> int:
    return int(os.environ.get(variable, "0"))


def _finite(loss: float | torch.Tensor | None) -> float | None:
    """*loss* as JSON can hold it: NaN and the infinities, which it can't, are null."""
    value = None if loss is None else float(loss)
    return value if value is not None and math.isfinite(value) else None


@functools.cache
def _channel() -> Channel:
    return Channel.from_environment()


def round_info() -> RoundInfo | None:
    """The round in which this process trains; ``None`` under plain torchrun."""
    return _channel().round_info()


def checkpoint_wanted() -> Notice | None:
    """Whether a checkpoint is wanted and not answered yet, as *this rank's* agent knows: cheap enough for every step.

    Ranks hear of a notice at different moments. Where ranks checkpoint together, or run collectives while they do, ask
    :func:`~elasticjob_rendezvous.train.agree_on_checkpoint` instead, which gives all of them the same answer.
    """
    return _channel().checkpoint_wanted()


def checkpointed(notice: Notice) -> None:
    """Say that the checkpoint that *notice* wanted is on storage. Call it on every rank; global rank 0 is heard."""
    _channel().checkpointed(notice)


def restored() -> None:
    """Say that this process has loaded its checkpoint and is about to train. Global rank 0 is heard.

    How long a round took is then told in two parts, restoring and the first step; without it they are one.
    """
    _channel().restored()


def report_progress(
    *, step: int, samples: int, loss: float | torch.Tensor | None = None, busy: float | None = None
) -> None:
    """Report the work done so far. Call it after each step, on every rank; global rank 0 is heard.

    The first report of a process is written at once and the last when it ends; between them at most one in a second. A
    *loss* on an accelerator is copied only when it is written, so a report costs no synchronisation.

    *busy*: seconds of this step that this process spent on its own work, not waiting for others: loading its data and
    the forward pass, say, but nothing that ends in a collective. Each node's first worker is heard. A node that takes
    much longer than its peers for a minute is named in the job's condition ``Straggling``.
    """
    _channel().report_progress(step=step, samples=samples, loss=loss, busy=busy)
