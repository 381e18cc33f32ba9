"""`elasticjob simulate TRACE`: what would happen, before the cluster is trusted to it."""

from __future__ import annotations

import argparse
import math
import pathlib
import sys
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler.simulating import drawing, replaying, traces

if TYPE_CHECKING:
    from collections.abc import Callable

    from elasticjob_operator.autoscaler.simulating import results

HEAD = f"{'policy':10}{'mean':>10}{'p99':>10}{'makespan':>10}{'changes':>9}{'in use':>8}"


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 when the input cannot be read or the picture not be written."""
    options = _parser().parse_args(arguments)
    try:
        _simulate(options)
    except (OSError, traces.TraceError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _simulate(options: argparse.Namespace) -> None:
    trace, events = traces.read(options.trace), traces.cluster(options.cluster, options.spot)
    picture = options.svg
    if picture:
        picture.write_text("")  # that it cannot be written is better known before the replay
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
        if picture:
            picture.write_text(drawing.timeline(run, accelerators))
            picture = None


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
    simulate.add_argument("--resize-cost", type=_seconds(0), default=30.0, help="seconds without progress (30)")
    simulate.add_argument("--interval", type=_seconds(1), default=60.0, help="seconds between decisions (60)")
    simulate.add_argument("--svg", type=pathlib.Path, help="draw the first run into this file")
    return parser


def _seconds(least: float) -> Callable[[str], float]:
    """What reads a number of seconds that is finite and at *least* so many."""

    def seconds(text: str) -> float:
        found = float(text)
        if not (math.isfinite(found) and found >= least):
            raise argparse.ArgumentTypeError(f"{text} is not {least:g} or more")
        return found

    return seconds


def _row(name: str, run: results.Result, accelerators: int) -> str:
    if not run.finished:
        return f"{name:10} no job finished: is there room for a minimum?\n"
    hours = "".join(f"{value / 3600:10.2f}" for value in (run.mean, run.p99, run.makespan))
    used = run.busy / max(accelerators * run.makespan, 1)
    names = ", ".join(sorted(one.job.name for one in run.unfinished)[:3])
    left = f"  {len(run.unfinished)} not finished ({names})" if run.unfinished else ""
    return f"{name:10}{hours}{run.changes:9.2f}{used:8.0%}{left}\n"


if __name__ == "__main__":
    sys.exit(main())
