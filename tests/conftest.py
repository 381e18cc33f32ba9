"""For all tests: programs that they start keep their bytecode, and what is drawn at random is drawn alike each time."""

from __future__ import annotations

import os
import sys

import hypothesis

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # some containers set it; each import of torch then takes twice as long
sys.dont_write_bytecode = False

hypothesis.settings.register_profile(
    "alike", derandomize=True
)  # a red run can be run again; new cases come with new code
hypothesis.settings.load_profile("alike")
