"""A cluster's folder: what a crash may have left in it, and which names it may have."""

from pathlib import Path

import pytest

from cluster import errors, folders


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize(
    "text", ["", '{"index"', "[]", "{}", "null", '{"index": "3"}', '{"index": -1}', '{"index": 999}']
)
def test_a_state_file_that_is_cut_short_or_foreign_holds_no_index(text: str) -> None:
    assert folders.parse_index(text) is None


def test_a_claimed_index_is_read_back() -> None:
    folder = folders.of("one")
    folder.claim(5)

    assert folders.of("one").index() == 5


def test_a_cluster_that_was_never_there_has_no_index_and_no_nodes() -> None:
    assert folders.of("none").index() is None
    assert folders.of("none").node_names() == []


def test_each_claim_gets_an_index_of_its_own() -> None:
    claimed = [folders.claimed(name).index() for name in ("a", "b", "c")]

    assert len(set(claimed)) == 3


def test_a_folder_left_half_made_does_not_keep_others_from_claiming() -> None:
    folders.of("broken").path.mkdir(parents=True)
    (folders.of("broken").path / "cluster.json").write_text("{")

    assert folders.claimed("whole").index() is not None


def test_nodes_are_listed_in_the_order_of_their_numbers() -> None:
    folder = folders.of("many")
    for number in (10, 9, 1):
        folder.node(f"node-{number}").mkdir(parents=True)

    assert folder.node_names() == ["node-1", "node-9", "node-10"]


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "-a", "a-", "a" * 33, "a b", "ä"])
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(errors.ClusterError, match="no name for a cluster"):
        folders.of(name)


def test_two_users_clusters_of_one_name_have_different_cgroups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = folders.of("demo").cgroup
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))

    assert folders.of("demo").cgroup != mine
