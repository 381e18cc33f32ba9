"""Waits end, and say what for; programs that fail say why."""

import sys
from pathlib import Path

import pytest

from cluster import errors, running, waiting


def test_what_was_waited_for_is_returned() -> None:
    answers = iter([None, "", "here"])

    assert waiting.until("an answer", lambda: next(answers), seconds=5, interval=0) == "here"


def test_a_wait_in_vain_says_what_for() -> None:
    with pytest.raises(errors.ClusterError, match=r"0\.01 s for the moon"):
        waiting.until("the moon", lambda: False, seconds=0.01, interval=0)


def test_a_wait_ends_at_once_when_it_has_become_pointless() -> None:
    def check() -> None:
        raise errors.ClusterError("it has died")

    with pytest.raises(errors.ClusterError, match="it has died"):
        waiting.until("it", lambda: False, seconds=3600, check=check)


def test_a_program_gets_its_input_and_its_output_is_returned() -> None:
    assert running.run("cat", input="text\n") == "text\n"


def test_a_program_that_fails_shows_its_last_words() -> None:
    script = "import sys; print('first'); sys.exit('the reason')"

    with pytest.raises(errors.ClusterError, match=r"ended with 1:\n(.*\n)*.*the reason"):
        running.run(sys.executable, "-c", script)


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(errors.ClusterError, match="no-such-program is not installed"):
        running.run("no-such-program")


def test_a_program_that_hangs_is_ended() -> None:
    with pytest.raises(errors.ClusterError, match=r"did not end within 0\.2 s"):
        running.run("sleep", "60", seconds=0.2)


def test_of_a_long_log_the_end_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(f"line {number}" for number in range(100)))

    shown = running.tail_of(log).splitlines()

    assert shown[-1].strip() == "line 99"
    assert len(shown) == running.TAIL_LINES


def test_a_log_that_is_missing_is_no_error(tmp_path: Path) -> None:
    assert "no log" in running.tail_of(tmp_path / "none")
