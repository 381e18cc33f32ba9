"""Tests that share a cluster share a process."""

import pathlib

from support import checkout, lanes


def lanes_of(folder: str) -> set[str]:
    files = (checkout.ROOT / folder).glob("test_*.py")
    return {lanes.lane(f"{path.relative_to(checkout.ROOT)}::test_it[a/b::c]") for path in files}


def test_a_folder_is_a_lane_and_e2e_is_two() -> None:
    assert lanes_of("tests/integration/operators") == {"tests/integration/operators"}
    assert lanes_of("tests/integration") == {"tests/integration"}
    assert lanes_of("tests/e2e") == {"tests/e2e", "tests/e2e, second half"}


def test_what_is_named_for_the_second_half_is_there() -> None:
    assert {pathlib.Path(path).stem for path in (checkout.ROOT / "tests/e2e").glob("test_*.py")} > set(lanes.SECOND)
