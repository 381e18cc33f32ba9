"""What workers say on standard error is passed on, and its end is known."""

from __future__ import annotations

import math
import os
import pathlib
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from elasticjob_rendezvous import handler, hearing, settings

if TYPE_CHECKING:
    from collections.abc import Iterator


FD = pathlib.Path("/proc/self/fd/2")


@pytest.fixture
def ear(capfd: pytest.CaptureFixture[str]) -> Iterator[hearing.Ear]:
    """Standard error is what *capfd* has captured until the test began, and again when it ends."""
    assert capfd
    ear = hearing.Ear()
    yield ear
    ear.close()


def worker(ear: hearing.Ear, text: str) -> None:
    """What a worker says that torch starts."""
    ear.open()
    subprocess.run([sys.executable, "-c", f"import os; os.write(2, {text.encode()!r})"], check=True)
    ear.shut()


def test_a_workers_last_words_are_passed_on_and_known(ear: hearing.Ear, capfd: pytest.CaptureFixture[str]) -> None:
    worker(ear, "Traceback\nValueError: no\n")

    assert ear.said(math.inf) == "Traceback\nValueError: no"
    assert capfd.readouterr().err == "Traceback\nValueError: no\n"


def test_the_agents_own_words_are_not_its_workers(ear: hearing.Ear, capfd: pytest.CaptureFixture[str]) -> None:
    worker(ear, "theirs\n")
    os.write(2, b"ours\n")

    assert ear.said(math.inf) == "theirs"
    assert capfd.readouterr().err.count("ours") == 1


def test_what_torch_and_the_agent_log_before_workers_are_looked_after_is_not_the_workers(ear: hearing.Ear) -> None:
    agent = os.getpid()
    worker(
        ear,
        "ValueError: no\n"
        f"E1130 20:41:41.248000 {agent} torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1)\n"
        "[2026-11-30 20:41:43,228] WARNING elasticjob_rendezvous: job plain: slot 0 waits\n"
        f"W1130 20:41:41.248000 {agent + 1} torch/nn/parallel.py:1] a worker's own\n",
    )

    assert ear.said(math.inf).splitlines() == [
        "ValueError: no",
        f"W1130 20:41:41.248000 {agent + 1} torch/nn/parallel.py:1] a worker's own",
    ]


def test_what_is_said_later_is_others_answer(ear: hearing.Ear) -> None:
    worker(ear, "first\n")
    assert ear.said(math.inf) == "first"
    moment = time.time()
    time.sleep(0.001)  # clocks have a grain
    worker(ear, "second\n")

    assert ear.said(math.inf) == "first\nsecond"
    assert ear.said(moment) == "first"


def test_new_workers_are_not_taken_for_the_old_ones(ear: hearing.Ear) -> None:
    worker(ear, "old\n")
    assert ear.said(math.inf) == "old"
    ear.forget()

    assert ear.said(math.inf) == ""


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("10%\r20%\r30%\n", "30%"),
        ("\x1b[31mred\x1b[0m\r\n", "red"),
        ("a\x07\x00b\n", "ab"),
        ("Größe 数\n", "Größe 数"),
        ("half a l", "half a l"),
    ],
)
def test_what_only_a_terminal_needs_is_left_out(ear: hearing.Ear, text: str, heard: str) -> None:
    worker(ear, text)

    assert ear.said(math.inf) == heard


def test_a_bounded_part_is_kept_of_what_is_said_for_days(ear: hearing.Ear, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(20):
        worker(ear, "x" * 10_000)
    worker(ear, "\nthe end\n")

    heard = ear.said(math.inf)

    assert heard.endswith("x\nthe end")
    assert hearing.KEPT <= len(heard) + 1 < 2 * hearing.KEPT
    assert len(capfd.readouterr().err) == 200_009, "all of it is passed on"


def test_outside_the_main_thread_nothing_is_changed(ear: hearing.Ear) -> None:
    before = FD.readlink()
    thread = threading.Thread(target=ear.open)
    thread.start()
    thread.join()

    assert FD.readlink() == before
    assert ear.said(math.inf) == ""


@pytest.mark.parametrize("end", ["shutdown", "_on_finish"])
def test_an_agent_whose_workers_end_before_it_looks_speaks_for_itself_again(
    end: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert capfd
    before = FD.readlink()
    env = {settings.SLOT_ENV: "0"}
    config = settings.parse(endpoint="a", run_id="b", low=1, high=1, local_addr="10.0.0.1", conf={}, env=env)
    agent = handler.KubernetesRendezvousHandler(config)
    agent._ear.open()
    assert FD.readlink() != before
    getattr(agent, end)()
    assert FD.readlink() == before
    agent._ear.close()


def test_a_file_that_has_the_descriptor_of_a_standard_error_that_never_was_is_left_alone() -> None:
    code = (
        "import os; from elasticjob_rendezvous import hearing\n"
        "taken = os.open('/dev/zero', os.O_RDONLY); ear = hearing.Ear(); ear.open()\n"
        "print(taken, os.readlink('/proc/self/fd/2'))"
    )
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", code], stdout=subprocess.PIPE, check=True
    )

    assert done.stdout == b"2 /dev/zero\n"
