"""The directory through which the agent and its workers' training scripts talk: small JSON files, replaced atomically.

``round.json`` and ``notice.json`` are the agent's, ``progress.json`` is global rank 0's worker's, ``busy.json`` its
first local worker's, ``stacks.<pid>`` any worker's. What can't be read in it is as good as absent: a training script
must not be able to break its agent.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import pathlib
import shutil
import signal
import tempfile
from typing import TYPE_CHECKING, Any

from elasticjob_rendezvous.round import lease

if TYPE_CHECKING:
    from elasticjob_rendezvous.round.record import Notice, Record

logger = logging.getLogger("elasticjob_rendezvous")

ENV = "ELASTICJOB_TRAIN_DIR"

STACKS = "stacks."
"""Begin of a notice's id that wants no checkpoint but the workers' stacks, and of the files by which workers say, with
their PID, that they listen to ``DUMP_SIGNAL``."""

DUMP_SIGNAL = signal.SIGUSR2
"""At which a worker that has imported the training side writes the stacks of its threads (``train.evidence``)."""

_MAX_BYTES = 4096
_OF_A_ROUND = ("notice.json", "progress.json", "busy.json")


class TrainDir:
    """One agent's directory. Made at once, so that the environment is set before any worker is started."""

    def __init__(self) -> None:
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="elasticjob-"))
        atexit.register(shutil.rmtree, self.path, ignore_errors=True)
        os.environ[ENV] = str(self.path)
        self._read_at: tuple[int, int] | None = None
        self._notice: Notice | None = None

    def begin(self, record: Record) -> None:
        """A round begins: the last one's files are gone before its workers start."""
        for path in (*map(self.path.joinpath, _OF_A_ROUND), *self.path.glob(f"{STACKS}*")):
            path.unlink(missing_ok=True)
        self._read_at = self._notice = None
        nodes, reason = len(record.members), record.reason.value
        self._write("round.json", {"number": record.number, "nodes": nodes, "reason": reason})

    def notice(self, notice: Notice | None) -> None:
        """Passes on the wish for a checkpoint, or takes it back."""
        if notice == self._notice:
            return
        self._notice = notice
        if notice is not None and notice.id.startswith(STACKS):
            self._dump_stacks()
        elif notice is None:
            (self.path / "notice.json").unlink(missing_ok=True)
        else:
            self._write("notice.json", {"id": notice.id, "graceSeconds": notice.grace_seconds})

    def busy(self) -> float:
        """Seconds of a step that the node's first worker spends on its own work; 0 while it says nothing sensible."""
        try:
            text = (self.path / "busy.json").read_text()[:_MAX_BYTES]
        except (OSError, ValueError):
            return 0.0
        return lease.parse(0, "", {lease.BUSY: text}).busy

    def progress(self) -> tuple[lease.Progress | None, str] | None:
        """The progress and the last checkpointed notice, or None while nothing new was written."""
        path = self.path / "progress.json"
        try:
            stat = path.stat()
            if (stat.st_mtime_ns, stat.st_ino) == self._read_at:
                return None
            self._read_at = (stat.st_mtime_ns, stat.st_ino)
            with path.open("rb") as file:
                data = json.loads(file.read(_MAX_BYTES))
        except (OSError, ValueError, RecursionError):
            return None
        return _parsed(data)

    def _dump_stacks(self) -> None:
        """Has the workers write where they are. Only those are told that listen: the signal ends all others."""
        for path in self.path.glob(f"{STACKS}*"):
            pid = path.name.removeprefix(STACKS)
            if pid.isdecimal() and int(pid) > 1:  # 0 and 1 are not workers but a group, and this very process
                logger.warning("the stacks of worker process %s follow, as it hangs", pid)
                with contextlib.suppress(OSError, OverflowError):
                    os.kill(int(pid), DUMP_SIGNAL)

    def _write(self, name: str, data: dict[str, Any]) -> None:
        new = self.path / f".{name}"
        new.write_text(json.dumps(data))
        new.replace(self.path / name)


def _parsed(data: Any) -> tuple[lease.Progress | None, str] | None:
    if not isinstance(data, dict):
        return None
    wanted = {key: data.get(key) for key in ("round", "step", "samples", "loss", "restored")}
    found = lease.parse(0, "", {lease.PROGRESS: json.dumps(wanted)})
    done = data.get("checkpointed")
    return found.progress, done if isinstance(done, str) and len(done) <= lease.MAX_TEXT else ""
