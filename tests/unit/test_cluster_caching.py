"""The cache: complete or absent, made once, whoever asks."""

import threading
from pathlib import Path

import pytest

from cluster import caching


def test_the_cache_follows_the_users_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert caching.root() == tmp_path / "elasticjob"


def test_a_key_tells_where_one_part_ends_and_the_next_begins() -> None:
    assert caching.key(["ab", "c"]) != caching.key(["a", "bc"])
    assert caching.key(["a", b"b"]) == caching.key([b"a", "b"])


def test_a_thing_is_made_once(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(draft: Path) -> None:
        made.append(draft)
        draft.write_text("whole")

    first = caching.made(tmp_path / "thing", make)
    second = caching.made(tmp_path / "thing", make)

    assert first == second
    assert first.read_text() == "whole"
    assert len(made) == 1


def test_a_thing_whose_making_failed_is_absent_and_is_made_anew(tmp_path: Path) -> None:
    def fail(draft: Path) -> None:
        draft.mkdir()
        (draft / "half").touch()
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        caching.made(tmp_path / "thing", fail)
    assert not (tmp_path / "thing").exists()

    caching.made(tmp_path / "thing", lambda draft: draft.mkdir())

    assert list((tmp_path / "thing").iterdir()) == []


def test_of_many_that_ask_at_once_one_makes(tmp_path: Path) -> None:
    made: list[Path] = []
    start = threading.Barrier(8)

    def make(draft: Path) -> None:
        made.append(draft)
        draft.touch()

    def ask() -> None:
        start.wait()
        caching.made(tmp_path / "thing", make)

    askers = [threading.Thread(target=ask) for _ in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()

    assert len(made) == 1


def test_removing_takes_files_folders_and_links_but_not_what_a_link_names(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "file").touch()

    for name in ("link", "folder", "file", "never-there"):
        caching.remove(tmp_path / name)

    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_lock_that_somebody_holds_is_not_waited_for_by_who_only_asks(tmp_path: Path) -> None:
    with caching.lock_if_free(tmp_path / "lock") as first, caching.lock_if_free(tmp_path / "lock") as second:
        assert (first, second) == (True, False)
    with caching.lock_if_free(tmp_path / "lock") as third:
        assert third
