"""`elasticjob simulate TRACE`: what would happen, before the cluster is trusted to it."""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler.simulating import drawing, replaying, traces

if TYPE_CHECKING:
    from elasticjob_operator.autoscaler.simulating import results

HEAD = f"{'policy':10}{'mean':>10}{'p99':>10}{'makespan':>10}{'changes':>9}{'in use':>8}"


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 when the input cannot be read."""
    options = _parser().parse_args(arguments)
    try:
        trace, events = traces.read(options.trace), traces.cluster(options.cluster, options.spot)
    except (OSError, traces.TraceError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    accelerators = sum(node.free for node in events[0].cluster_nodes)
    model = replaying.Options(interval=options.interval, resize_cost=options.resize_cost)
    sys.stdout.write(f"jobs: {len(trace)}, accelerators: {accelerators}; times in hours, changes per job\n{HEAD}\n")
    for name in options.policy:
        try:
            run = traces.run(name, trace, events, model)
        except traces.TraceError as error:
            sys.stdout.write(f"{error}\n")
            continue
        sys.stdout.write(_row(name, run, accelerators))
        if options.svg and name == options.policy[0]:
            options.svg.write_text(drawing.timeline(run, accelerators))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="elasticjob", description=__doc__)
    simulate = parser.add_subparsers(required=True).add_parser(
        "simulate", help="replay a trace", description=traces.__doc__
    )
    simulate.formatter_class = argparse.RawDescriptionHelpFormatter
    simulate.add_argument("trace", type=pathlib.Path, metavar="TRACE", help="jobs as CSV")
    simulate.add_argument("--cluster", default="16x4", help="cluster nodes x accelerators (16x4)")
    simulate.add_argument("--spot", default="", help="the same for volatile cluster nodes")
    simulate.add_argument("--policy", nargs="+", choices=traces.POLICIES, default=["ours", "equal"])
    simulate.add_argument("--resize-cost", type=float, default=30.0, help="seconds without progress (30)")
    simulate.add_argument("--interval", type=float, default=60.0, help="seconds between decisions (60)")
    simulate.add_argument("--svg", type=pathlib.Path, help="draw the first policy's run into this file")
    return parser


def _row(name: str, run: results.Result, accelerators: int) -> str:
    if not run.finished:
        return f"{name:10} no job finished: is there room for a minimum?\n"
    hours = "".join(f"{value / 3600:10.2f}" for value in (run.mean, run.p99, run.makespan))
    used = run.busy / max(accelerators * run.makespan, 1)
    left = f"  {len(run.unfinished)} not finished" if run.unfinished else ""
    return f"{name:10}{hours}{run.changes:9.2f}{used:8.0%}{left}\n"


if __name__ == "__main__":
    sys.exit(main())
