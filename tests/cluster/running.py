"""Running other programs: captured output, a deadline, and an error that shows what the program said last.

No shell is involved unless the caller names one.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cluster import errors

TAIL_LINES = 15


def run(
    *command: str | Path,
    input: str | bytes | None = None,
    seconds: float = 120,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a command to its end and return its standard output; a failure becomes a ClusterError with its last lines."""
    words = [str(word) for word in command]
    data = input.encode() if isinstance(input, str) else input
    try:
        environment = {**os.environ, **(env or {})}
        done = subprocess.run(
            words, input=data, capture_output=True, check=False, timeout=seconds, env=environment, cwd=cwd
        )
    except FileNotFoundError as error:
        raise errors.ClusterError(f"{words[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise errors.ClusterError(f"`{_short(words)}` did not end within {seconds:g} s") from error
    out = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        said = tail(out + done.stderr.decode(errors="replace"))
        raise errors.ClusterError(f"`{_short(words)}` ended with {done.returncode}:\n{said}")
    return out


def tail(text: str, lines: int = TAIL_LINES) -> str:
    """The last lines of a text, indented, for an error message."""
    return "\n".join(f"    {line}" for line in text.strip().splitlines()[-lines:])


def tail_of(log: Path) -> str:
    """The last lines of a log file that may not exist."""
    return tail(log.read_text(errors="replace")) if log.exists() else "    (no log)"


def _short(words: list[str]) -> str:
    text = " ".join(words)
    return text if len(text) <= 200 else text[:200] + " …"
