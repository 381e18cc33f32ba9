"""Names that belong to this checkout: its tests' clusters are told from those of another checkout on the same machine.

The name stays the same from run to run, because what a killed run has left goes when the next one takes its name.
"""

import os
import zlib
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The checkout."""


def cluster_name(purpose: str) -> str:
    """A name for the tests' cluster of this purpose; test processes side by side (pytest-xdist) have each their own."""
    process = os.environ.get("PYTEST_XDIST_WORKER", "")
    return f"{purpose}-{zlib.crc32(str(ROOT).encode()):08x}{process}"
