"""The limit that is raised for clusters side by side."""

from pathlib import Path

import pytest

from cluster import limits


@pytest.mark.parametrize(("before", "after"), [("128", "1024"), ("8192", "8192")])
def test_the_limit_is_raised_and_never_lowered(
    before: str, after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text(before)
    monkeypatch.setattr(limits, "INOTIFY", limit)

    limits.raise_inotify()

    assert limit.read_text() == after


def test_where_there_is_no_such_limit_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INOTIFY", tmp_path / "absent")

    limits.raise_inotify()
