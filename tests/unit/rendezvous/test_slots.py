from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_rendezvous.round import slots


@pytest.mark.parametrize(
    ("members", "text"),
    [((), ""), ((0,), "0"), ((0, 1, 2, 3, 7), "0-3,7"), ((5, 1), "1,5"), ((1022, 1023), "1022-1023")],
)
def test_runs(members: tuple[int, ...], text: str) -> None:
    assert slots.dump(members) == text
    assert slots.parse(text) == set(members)


@given(st.frozensets(st.integers(0, slots.MAX_SLOTS - 1)))
def test_text_and_set_are_the_same(members: frozenset[int]) -> None:
    assert slots.parse(slots.dump(members)) == members


@pytest.mark.parametrize("text", ["-1", "1-", "3-1", "01", "1,,2", "a", "1024", "0-9999", " 1", "1;2", "٣"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"slots"):
        slots.parse(text)
