"""Forked programs end with the process that started them, whatever ended that one."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from support import checkout

SECONDS = 60
LAUNCHER = """
import os, pathlib, signal, sys, threading
from support import forks

def started():
    fork = forks.Fork(signal.pause, env=dict(os.environ), log=pathlib.Path(sys.argv[1]))
    print(fork.pid, flush=True)

if __name__ == "__main__":
    thread = threading.Thread(target=started)  # its end is not the process's
    thread.start()
    thread.join()
    sys.stdin.read()
"""


def ended(handle: int, seconds: float) -> bool:
    return bool(select.select([handle], [], [], seconds)[0])


def test_what_was_forked_ends_when_its_launcher_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "launcher.py"
    script.write_text(LAUNCHER)
    env = {**os.environ, "PYTHONPATH": str(checkout.ROOT / "tests")}
    command = [sys.executable, str(script), str(tmp_path / "log")]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        handle = os.pidfd_open(int(launcher.stdout.readline()))
        lived = not ended(handle, 0)

        launcher.send_signal(signal.SIGKILL)

    gone = ended(handle, SECONDS)
    os.close(handle)
    assert (lived, gone) == (True, True)
