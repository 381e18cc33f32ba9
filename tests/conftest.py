"""For all tests: the programs that they start keep their bytecode."""

from __future__ import annotations

import os
import sys

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # some containers set it; each import of torch then takes twice as long
sys.dont_write_bytecode = False
