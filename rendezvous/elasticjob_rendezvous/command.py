"""The console command `elasticjob`. What it does is the operator's (`elasticjob simulate`): here is only the door, so
that a training image, which has the command and not the operator, says so in a line.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys

PROGRAM = "elasticjob_operator.autoscaler.__main__"
"""A name and no import: the rendezvous knows nothing of the operator."""

MISSING = "elasticjob: the simulator is the operator's, which is not installed here: use its image, or a clone"


def main() -> int:
    """Exit code of the command; 2 where the operator's code is not there."""
    if importlib.util.find_spec(PROGRAM.partition(".")[0]) is None:
        sys.stderr.write(f"{MISSING}\n")
        return 2
    return int(importlib.import_module(PROGRAM).main())
