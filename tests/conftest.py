"""For all tests: programs that they start keep their bytecode, and what is drawn at random is drawn alike each time."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

import hypothesis
import pytest

from support.lanes import Lanes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdist.remote import Producer

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # some containers set it; each import of torch then takes twice as long
sys.dont_write_bytecode = False

# A red run can be run again; new cases come with new code. Nothing is red because the machine was slow.
hypothesis.settings.register_profile(
    "alike", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("alike")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes | None:
    """What ``--dist loadscope`` means here; other ways are pytest-xdist's own."""
    return Lanes(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_collection_finish() -> None:
    """What was made by now stays until the end; the collector of garbage need not look through it again and again."""
    gc.freeze()


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """What a test, or what it calls, sets in the environment ends with it: all that is started later inherits it."""
    before = dict(os.environ)
    yield
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)
