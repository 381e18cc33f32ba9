"""Processes are found by what they are, and only those are ended."""

import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import machines, processes


@pytest.fixture
def word() -> str:
    """An argument that no other process has."""
    return f"word-{uuid.uuid4()}"


@pytest.fixture
def sleeper(word: str) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sh", "-c", "echo up; read -r _; exit 3", "sh", word], stdin=-1, stdout=-1) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


def test_a_process_is_found_by_its_words(sleeper: "subprocess.Popen[bytes]", word: str) -> None:
    found = processes.find(lambda process: word in process.words)

    assert [process.pid for process in found] == [sleeper.pid]
    assert found[0].program == "sh"
    assert found[0].namespace.startswith("pid:[")


def test_a_process_that_matches_is_ended(sleeper: "subprocess.Popen[bytes]", word: str) -> None:
    assert processes.end(lambda process: word in process.words) == []
    assert sleeper.wait(5) == -9


def test_a_process_that_does_not_match_is_left_alone(sleeper: "subprocess.Popen[bytes]", word: str) -> None:
    assert processes.end(lambda process: f"{word}-another" in process.words) == []
    assert sleeper.poll() is None


def test_a_number_that_meanwhile_belongs_to_somebody_else_is_left_alone(sleeper: "subprocess.Popen[bytes]") -> None:
    looks = iter([True, False])  # it matched when it was found, and is another by the time it is pinned

    processes.end(lambda process: process.pid == sleeper.pid and next(looks))

    assert sleeper.poll() is None


def test_a_process_that_will_not_go_is_returned(sleeper: "subprocess.Popen[bytes]", word: str) -> None:
    left = processes.end(lambda process: word in process.words, with_signal=signal.SIGCONT, seconds=0.05)

    assert [process.pid for process in left] == [sleeper.pid]


def test_a_process_that_is_gone_has_no_words(sleeper: "subprocess.Popen[bytes]") -> None:
    sleeper.kill()
    sleeper.wait()

    assert processes.look(sleeper.pid) == processes.Process(sleeper.pid, ())
    assert processes.look(sleeper.pid).program == ""
    assert processes.look(sleeper.pid).namespace == ""


def test_a_process_that_is_just_replacing_its_program_has_words() -> None:
    """Or a component that starts would be taken for one that has died."""
    for _ in range(50):
        with subprocess.Popen(["sleep", "60"]) as process:
            seen = [processes.look(process.pid) for _ in range(200)]
            process.kill()
        assert all(one.words for one in seen)


def test_only_the_machines_of_the_folder_are_killed(tmp_path: Path) -> None:
    name = tmp_path.name
    pause = tmp_path / "pause"
    pause.write_text("#!/bin/sh\necho up; read -r _\n")
    pause.chmod(0o755)
    homes = [tmp_path / "one" / "control", tmp_path / "one-more" / "control"]
    started = [_started(pause, home) for home in homes]

    machines.kill_all(tmp_path / "one")

    assert [process.poll() is None for process in started] == [False, True], name
    started[1].kill()
    for process in started:
        process.communicate()


def _started(program: Path, home: Path) -> "subprocess.Popen[bytes]":
    # `exec -a` gives the process the two words of a machine's first process.
    script = 'exec -a "$0" bash -c "echo up; read -r _" "$1"'
    process = subprocess.Popen(["bash", "-c", script, str(program), str(home)], stdin=-1, stdout=-1)
    assert process.stdout
    process.stdout.readline()
    return process
