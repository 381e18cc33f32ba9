"""`elasticjob simulate TRACE`: what would happen, before the cluster is trusted to it."""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
import sys
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import settings, snapshot
from elasticjob_operator.autoscaler.simulating import (
    clusters,
    comparing,
    drawing,
    inputs,
    installed,
    replaying,
    telling,
    traces,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from elasticjob_operator.api import settings as operator_settings
    from elasticjob_operator.autoscaler.simulating import jobs, results

DESCRIPTION = f"""{traces.__doc__}
CLUSTER: {clusters.__doc__}
VALUES: values files of the chart, of which `autoscaler` is read: each makes a run of its own, so that two settings
stand side by side. Two things are not simulated: speeds are known, not learned, and nobody adds cluster nodes.
"""


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 when the input cannot be read or the picture not be written."""
    options = _parser().parse_args(arguments)
    try:
        _simulate(options)
    except (OSError, inputs.InputError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _simulate(options: argparse.Namespace) -> None:
    trace, cluster = traces.read(options.trace), clusters.read(options.cluster, options.spot)
    plans = _plans(options)
    if options.svg:
        options.svg.write_text("")  # that it cannot be written is better known before the replay
    width = 2 + max(len(name) for name in [*(plan.label for plan in plans), *(f"  {job.home}" for job in trace)])
    sys.stdout.write(f"jobs: {len(trace)}, accelerators: {cluster.accelerators}; {telling.UNITS}\n")
    sys.stdout.write(telling.head(width))
    model = replaying.Options(interval=options.interval, resize_cost=options.resize_cost)
    runs = []
    for plan in plans:
        try:
            run = plan.run(trace, cluster, model)
        except inputs.InputError as error:
            sys.stdout.write(f"{error}\n")
            continue
        sys.stdout.writelines(telling.lines(plan.label, run, width))
        notes = telling.notes(plan.wish, trace, cluster.accelerators) if plan.wish else ()
        sys.stdout.writelines(f"  ({note})\n" for note in notes)
        runs.append((plan.label, run))
    if options.svg:
        options.svg.write_text(drawing.picture(runs, cluster.accelerators))


@dataclasses.dataclass(frozen=True)
class _Plan:
    """One line of the table."""

    label: str
    policy: str
    wish: operator_settings.Autoscaler | None = None
    """What an administrator has set, for ours."""

    def run(self, trace: list[jobs.TraceJob], cluster: replaying.Event, options: replaying.Options) -> results.Result:
        if self.wish is None:
            return comparing.run(self.policy, trace, [cluster], options)
        told = dataclasses.replace(options, queues=snapshot.queues(self.wish))
        return comparing.run(self.policy, trace, [cluster], told, rules=settings.chosen(self.wish))


def _plans(options: argparse.Namespace) -> list[_Plan]:
    """Ours with each file of values, the others as they are."""
    if options.values and "ours" not in options.policy:
        raise inputs.InputError("--values are settings of the policy ours, which is not among --policy")
    ours = [_Plan(str(path or "ours"), "ours", installed.read(path)) for path in options.values or (None,)]
    listed = [ours if name == "ours" else [_Plan(name, name)] for name in dict.fromkeys(options.policy)]
    return [plan for plans in listed for plan in plans]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="elasticjob", description=__doc__)
    simulate = parser.add_subparsers(required=True).add_parser(
        "simulate", help="replay a trace", description=DESCRIPTION
    )
    simulate.formatter_class = argparse.RawDescriptionHelpFormatter
    simulate.add_argument("trace", type=pathlib.Path, metavar="TRACE", help="jobs as CSV")
    simulate.add_argument("--cluster", default="16x4", help="cluster nodes x accelerators (16x4), or a YAML file")
    simulate.add_argument("--spot", default="", metavar="NxM", help="volatile cluster nodes beside them")
    simulate.add_argument("--values", nargs="+", default=(), type=pathlib.Path, help="settings to compare")
    simulate.add_argument("--policy", nargs="+", choices=comparing.POLICIES, default=["ours", "equal"])
    simulate.add_argument("--resize-cost", type=_seconds(0), default=30.0, help="seconds without progress (30)")
    simulate.add_argument("--interval", type=_seconds(1), default=60.0, help="seconds between decisions (60)")
    simulate.add_argument("--svg", type=pathlib.Path, help="draw the runs into this file")
    return parser


def _seconds(least: float) -> Callable[[str], float]:
    """What reads a number of seconds that is finite and at *least* so many."""

    def seconds(text: str) -> float:
        found = float(text)
        if not (math.isfinite(found) and found >= least):
            raise argparse.ArgumentTypeError(f"{text} is not {least:g} or more")
        return found

    return seconds


if __name__ == "__main__":
    sys.exit(main())
