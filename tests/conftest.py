"""For all tests: programs that they start keep their bytecode, and what is drawn at random is drawn alike each time."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # some containers set it; each import of torch then takes twice as long
sys.dont_write_bytecode = False

hypothesis.settings.register_profile(
    "alike", derandomize=True
)  # a red run can be run again; new cases come with new code
hypothesis.settings.load_profile("alike")


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """What a test, or what it calls, sets in the environment ends with it: all that is started later inherits it."""
    before = dict(os.environ)
    yield
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)
