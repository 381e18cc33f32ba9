"""The autoscaler's figures on public traces: `python -m bench.autoscaler [PART ...]`, all parts when none is
named.

Each part replays traces with our allocator beside published policies, appends its figures to
`build/bench/autoscaler.jsonl` (figure, policy, value, unit) and prints a table. `docs` writes them to
`docs/autoscaler/` once the others have run.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
import random
import statistics
import sys
from typing import TYPE_CHECKING

from bench import deciding, tables, traces
from elasticjob_operator.autoscaler import settings, snapshot, surplus
from elasticjob_operator.autoscaler.simulating import comparing, drawing, jobs, learned, policies, replaying, results

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = pathlib.Path(__file__).parents[2]
OUT = ROOT / "build/bench/autoscaler.jsonl"
DOCS = ROOT / "docs/autoscaler"
WORKLOADS = range(1, 9)
NOISE = 0.10
"""Relative standard deviation of a report."""
SEED = 1
HOST = 4
"""GPUs of a cluster node in Pollux's cluster."""
SPOT_DELAYS = (0.0, 700.0, 1500.0, 2300.0)
"""Seconds."""
FACTORS = (0.75, 1.0, 1.5, 2.0, 3.0)
"""Of `surplus.MATURE`, to choose from."""
VARIANTS = {
    "ours-spot-minimum": settings.Settings(volatile_minimum=True),
    "ours-unmoved": settings.Settings(moves=False),
}
"""Ours with other settings; the operator itself moves no pods that run."""
BLIND = {"blind": settings.Settings(), "blind-unmoved": settings.Settings(moves=False)}
"""Ours without knowing which cluster nodes may vanish."""
PUBLISHED = {"tiresias": 4038.0, "optimus": 5682.0}
"""Mean of the 8 workloads' mean completion times in Pollux's artifact (results-jobload), seconds."""


def replay(
    name: str,
    trace: list[jobs.TraceJob],
    events: list[replaying.Event],
    options: replaying.Options | None = None,
    knowledge: replaying.Knowledge | None = None,
) -> results.Result:
    """One trace under one policy, by the policy's name."""
    options = options or replaying.Options()
    if name in BLIND:
        return replaying.Replay(trace, events, blind(policies.ours(BLIND[name])), knowledge, options).run()
    if rules := VARIANTS.get(name):
        return comparing.run("ours", trace, events, options, knowledge=knowledge, rules=rules)
    return comparing.run(name, trace, events, options, knowledge=knowledge)


def blind(policy: replaying.Policy) -> replaying.Policy:
    """The same policy, without knowing which cluster nodes may vanish."""

    def seeing(snap: snapshot.Snapshot) -> replaying.Allocation:
        stable = tuple(dataclasses.replace(node, volatile=False) for node in snap.cluster_nodes)
        return policy(dataclasses.replace(snap, cluster_nodes=stable))

    return seeing


def write(figure: str, policy: str, value: float, unit: str) -> None:
    """One line of the report; the same figure of an earlier run is replaced."""
    OUT.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []
    lines = [line for line in lines if (line["figure"], line["policy"]) != (figure, policy)]
    lines.append({"figure": figure, "policy": policy, "value": round(value, 3), "unit": unit})
    OUT.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(f"{figure:34} {policy:10} {value:12.2f} {unit}", flush=True)


def eight(
    name: str,
    options: replaying.Options | None = None,
    knowledge: Callable[[], replaying.Knowledge] | None = None,
) -> list[results.Result]:
    """Pollux's workloads, 64 GPUs on 16 cluster nodes."""
    return [
        replay(name, traces.pollux(w), traces.cluster(16, HOST), options, knowledge() if knowledge else None)
        for w in WORKLOADS
    ]


def mean(runs: list[results.Result], figure: Callable[[results.Result], float]) -> float:
    """Over the workloads."""
    return statistics.fmean(figure(run) for run in runs)


def pollux() -> None:
    """Figures 1 and 3: completion times, restarts, fairness; workload 6 is drawn."""
    sixth = []
    for name in ("tiresias", "optimus", "equal", "ours", "ours-unmoved"):
        runs = eight(name)
        write("pollux_mean_jct", name, mean(runs, lambda r: r.mean), "s")
        write("pollux_p99_jct", name, mean(runs, lambda r: r.p99), "s")
        write("pollux_p99_jct_linear", name, mean(runs, lambda r: r.p99_linear), "s")
        pooled = sorted(seconds for run in runs for seconds in run.times)
        write("pollux_p99_jct_pooled", name, results.interpolated(pooled, 0.99), "s")
        write("pollux_makespan", name, mean(runs, lambda r: r.makespan) / 3600, "h")
        write("pollux_restarts_per_job", name, mean(runs, lambda r: r.changes), "1")
        worst = max(max(run.unfairness(64, 30)) for run in runs)
        write("pollux_worst_unfairness", name, worst, "1")
        write("pollux_needless_waits", name, sum(run.needless_waits for run in runs), "1")
        if name in PUBLISHED:
            off = mean(runs, lambda r: r.mean) / PUBLISHED[name] - 1
            write("pollux_off_published", name, 100 * off, "%")
        sixth.append((name, runs[5]))
    (DOCS / "pollux-6.svg").write_text(drawing.picture(sixth[:-1], 64))


def held_out() -> None:
    """Figure 1 without its own traces' advice: how fast weights fall is chosen on four workloads and measured on the
    other four, both ways round.
    """
    halves = (WORKLOADS[::2], WORKLOADS[1::2])
    means = {factor: [_half(factor, half) for half in halves] for factor in FACTORS}
    for factor, found in means.items():
        write(f"pollux_mean_jct_weights_{factor:g}", "ours", statistics.fmean(found), "s")
    best = [min(FACTORS, key=lambda factor: means[factor][half]) for half in (0, 1)]
    write("pollux_mean_jct_held_out", "ours", (means[best[0]][1] + means[best[1]][0]) / 2, "s")


def _half(factor: float, half: Sequence[int]) -> float:
    usual, surplus.MATURE = surplus.MATURE, factor
    try:
        runs = [replay("ours", traces.pollux(w), traces.cluster(16, HOST)) for w in half]
        return mean(runs, lambda r: r.mean)
    finally:
        surplus.MATURE = usual


def noisy() -> Callable[[], learned.Learned]:
    """One source of noise for all workloads."""
    noise = random.Random(SEED)  # noqa: S311 -- reproducible noise, no secret
    return lambda: learned.Learned(lambda: noise.gauss(0, NOISE), HOST, first=HOST)


def learning() -> None:
    """Figure 3: the same with 10 % noise, nothing known before a job has run; with and without moving pods."""
    for name in ("ours", "ours-unmoved"):
        runs = eight(name, knowledge=noisy())
        policy = f"{name}-learned"
        write("pollux_mean_jct", policy, mean(runs, lambda r: r.mean), "s")
        write("pollux_p99_jct", policy, mean(runs, lambda r: r.p99), "s")
        write("pollux_makespan", policy, mean(runs, lambda r: r.makespan) / 3600, "h")
        write("pollux_restarts_per_job", policy, mean(runs, lambda r: r.changes), "1")
        write("pollux_worst_unfairness", policy, max(max(run.unfairness(64, 30)) for run in runs), "1")


def costs() -> None:
    """Figure 4: what a change costs; and the workload in which ours fares worst beside an equal share."""
    for cost in (0, 120, 300):
        options = replaying.Options(resize_cost=float(cost))
        runs = {name: eight(name, options) for name in ("equal", "ours", "ours-unmoved")}
        for name, found in runs.items():
            write(f"pollux_mean_jct_cost_{cost}", name, mean(found, lambda r: r.mean), "s")
            worst = max(run.mean / equal.mean for run, equal in zip(found, runs["equal"], strict=True))
            write(f"pollux_worst_to_equal_cost_{cost}", name, worst, "1")


def elasticflow() -> None:
    """Figure 2: 195 jobs on A100."""
    for gpus in (64, 128):
        for name in ("tiresias", "optimus", "equal", "ours", "ours-unmoved"):
            run = replay(name, traces.elasticflow(), traces.cluster(gpus // 8, 8))
            write(f"elasticflow_mean_jct_{gpus}", name, run.mean, "s")
            write(f"elasticflow_restarts_per_job_{gpus}", name, run.changes, "1")
            write(f"elasticflow_worst_unfairness_{gpus}", name, max(run.unfairness(gpus, 30)), "1")


def spot() -> None:
    """Figure 6: 12 stable cluster nodes and Parcae's spot nodes, 11 hours; work done, seeing volatility and not. Each
    workload begins at four moments of the spot trace: at one alone, chance is as large as what is looked for.
    """
    for name in ("equal", "ours-spot-minimum"):
        _spot(name)
    for unseeing, name in (("blind", "ours"), ("blind-unmoved", "ours-unmoved")):
        gains = [seen - blind for blind, seen in zip(_spot(unseeing), _spot(name), strict=True)]
        step = len(SPOT_DELAYS)  # the starts of one workload are alike, so it is the workloads that make the spread
        each = [statistics.fmean(gains[i : i + step]) for i in range(0, len(gains), step)]
        write("spot_work_gain", name, statistics.fmean(each), "%")
        write("spot_work_gain_error", name, statistics.stdev(each) / len(each) ** 0.5, "%")


def _spot(name: str) -> list[float]:
    """Work done in each run. All are told how long this trace's spot nodes last; the operator has to measure that."""
    runs = []
    for workload, delay in itertools.product(WORKLOADS, SPOT_DELAYS):
        events = traces.spot(stable=12, each=HOST)
        options = replaying.Options(until=events[-1].at, volatile_lifetime=traces.spot_lifetime())
        trace = [dataclasses.replace(job, submitted=job.submitted + delay) for job in traces.pollux(workload)]
        runs.append(replay(name, trace, events, options))
    done = [work_done(run) for run in runs]
    write("spot_work_done", name, statistics.fmean(done), "%")
    write("spot_jobs_finished", name, mean(runs, lambda r: len(r.finished)), "1")
    write("spot_lost_gpu_hours", name, mean(runs, lambda r: r.lost_work / 3600), "h")
    write("spot_stops_per_workload", name, mean(runs, lambda r: r.stops), "1")
    return done


def work_done(run: results.Result) -> float:
    """Part of all jobs' one-GPU time that is done."""
    every = [*run.finished, *run.unfinished]
    whole = sum(r.job.work / r.job.profile.packed(1) for r in every)
    return 100 * sum((r.job.work - max(r.left, 0)) / r.job.profile.packed(1) for r in every) / whole


def decisions() -> None:
    """Figure 5: time of one decision in a busy cluster: of the allocator alone, and of all the operator does for it."""
    for gpus, count, turns in ((64, 40, 200), (8192, 1000, 50)):
        times = {"decision": deciding.alone(gpus, count, turns), "decision_whole": deciding.whole(gpus, count, turns)}
        for figure, found in times.items():
            ordered = sorted([*found][1:])  # in the first one everybody starts
            write(f"{figure}_p95_ms_{gpus}gpu", "ours", ordered[int(0.95 * len(ordered))], "ms")
            write(f"{figure}_median_ms_{gpus}gpu", "ours", statistics.median(ordered), "ms")
    write("decision_load", "ours", os.getloadavg()[0], "1")


PARTS = {
    "pollux": pollux,
    "held-out": held_out,
    "learning": learning,
    "elasticflow": elasticflow,
    "costs": costs,
    "spot": spot,
    "decisions": decisions,
    "tables": tables.main,
}


def main(wanted: list[str]) -> None:
    """The parts in order."""
    for name in wanted or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
