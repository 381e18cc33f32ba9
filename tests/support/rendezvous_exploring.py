"""``make explore``: every world of :mod:`support.rendezvous_shapes`, each for as long as it is told, as a table."""

import json
import pathlib
import sys

from support.rendezvous_explorer import Explorer
from support.rendezvous_shapes import SHAPES

RESULTS = pathlib.Path("build/bench/protocol.jsonl")


def main(seconds: float) -> int:
    """Walks them; the exit code says whether all are sound."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    broken = 0
    with RESULTS.open("w") as out:
        for name, shape in SHAPES.items():
            report = Explorer(shape).walk(seconds=seconds)
            print(f"{name:58} {report}", flush=True)
            broken += bool(report.broken)
            found = {"complete": report.complete, "depth": report.depth, "seconds": round(report.seconds, 1)}
            line = {"figure": "protocol_states", "value": report.states, "unit": "states", "world": name, **found}
            out.write(json.dumps(line) + "\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 120.0))
