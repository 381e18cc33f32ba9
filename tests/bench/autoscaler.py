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
import pathlib
import random
import statistics
import sys
import time
from typing import TYPE_CHECKING

from bench import tables, traces
from elasticjob_operator.autoscaler import curves, deciding, settings, snapshot, surplus
from elasticjob_operator.autoscaler.simulating import comparing, drawing, jobs, learned, policies, replaying, results

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = pathlib.Path(__file__).parents[2]
OUT = ROOT / "build/bench/autoscaler.jsonl"
WORKLOADS = range(1, 9)
NOISE = 0.10
"""Relative standard deviation of a report."""
SEED = 1
HOST = 4
"""GPUs of a cluster node in Pollux's cluster."""
DECISIONS = 200
SPOT_DELAYS = (0.0, 700.0, 1500.0, 2300.0)
"""Seconds."""
FACTORS = (0.75, 1.0, 1.5, 2.0, 3.0)
"""Of `surplus.MATURE`, to choose from."""
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
    if name == "blind":
        return replaying.Replay(trace, events, blind(policies.ours()), knowledge, options).run()
    if name == "ours-spot-minimum":
        lenient = policies.ours(settings.Settings(volatile_minimum=True))
        return replaying.Replay(trace, events, lenient, knowledge, options).run()
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
    """Figures 1 and 3: completion times, restarts, fairness."""
    for name in ("tiresias", "optimus", "equal", "ours"):
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
        if name in {"ours", "tiresias"}:
            draw(f"pollux-6-{name}", runs[5])


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


def draw(name: str, run: results.Result) -> None:
    """One picture into the documentation."""
    folder = ROOT / "docs/autoscaler"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.svg").write_text(drawing.picture([(name.rpartition("-")[2], run)], 64))


def learning() -> None:
    """Figure 3: the same with 10 % noise, nothing known before a job has run."""
    noise = random.Random(SEED)  # noqa: S311 -- reproducible noise, no secret
    runs = eight("ours", knowledge=lambda: learned.Learned(lambda: noise.gauss(0, NOISE), HOST, first=HOST))
    write("pollux_mean_jct", "ours-learned", mean(runs, lambda r: r.mean), "s")
    write("pollux_p99_jct", "ours-learned", mean(runs, lambda r: r.p99), "s")
    write("pollux_makespan", "ours-learned", mean(runs, lambda r: r.makespan) / 3600, "h")
    write("pollux_restarts_per_job", "ours-learned", mean(runs, lambda r: r.changes), "1")
    write("pollux_worst_unfairness", "ours-learned", max(max(run.unfairness(64, 30)) for run in runs), "1")


def costs() -> None:
    """Figure 4: what a change costs."""
    for cost in (0, 120, 300):
        for name in ("equal", "ours"):
            runs = eight(name, replaying.Options(resize_cost=float(cost)))
            write(f"pollux_mean_jct_cost_{cost}", name, mean(runs, lambda r: r.mean), "s")


def elasticflow() -> None:
    """Figure 2: 195 jobs on A100."""
    for gpus in (64, 128):
        for name in ("tiresias", "equal", "ours"):
            run = replay(name, traces.elasticflow(), traces.cluster(gpus // 8, 8))
            write(f"elasticflow_mean_jct_{gpus}", name, run.mean, "s")
            write(f"elasticflow_restarts_per_job_{gpus}", name, run.changes, "1")
            write(f"elasticflow_worst_unfairness_{gpus}", name, max(run.unfairness(gpus, 30)), "1")


def spot() -> None:
    """Figure 6: 12 stable cluster nodes and Parcae's spot nodes, 11 hours; work done, seeing volatility and not. Each
    workload begins at four moments of the spot trace: at one alone, chance is as large as what is looked for.
    """
    for name in ("blind", "equal", "ours", "ours-spot-minimum"):
        runs = []
        for workload, delay in itertools.product(WORKLOADS, SPOT_DELAYS):
            events = traces.spot(stable=12, each=HOST)
            options = replaying.Options(until=events[-1].at, volatile_lifetime=traces.spot_lifetime())
            trace = [dataclasses.replace(job, submitted=job.submitted + delay) for job in traces.pollux(workload)]
            runs.append(replay(name, trace, events, options))
        write("spot_work_done", name, mean(runs, work_done), "%")
        write("spot_jobs_finished", name, mean(runs, lambda r: len(r.finished)), "1")
        write("spot_lost_gpu_hours", name, mean(runs, lambda r: r.lost_work / 3600), "h")
        write("spot_stops_per_workload", name, mean(runs, lambda r: r.stops), "1")


def work_done(run: results.Result) -> float:
    """Part of all jobs' one-GPU time that is done."""
    every = [*run.finished, *run.unfinished]
    whole = sum(r.job.work / r.job.profile.packed(1) for r in every)
    return 100 * sum((r.job.work - max(r.left, 0)) / r.job.profile.packed(1) for r in every) / whole


def decisions() -> None:
    """Figure 5: time of one decision in a busy cluster where 2 % of the jobs change between decisions."""
    for gpus, count in ((64, 40), (8192, 1000)):
        times = sorted(_timed(gpus, count))
        write(f"decision_p95_ms_{gpus}gpu", "ours", times[int(0.95 * len(times))], "ms")
        write(f"decision_median_ms_{gpus}gpu", "ours", times[len(times) // 2], "ms")


def _timed(gpus: int, count: int) -> list[float]:
    draw_one = random.Random(SEED)  # noqa: S311 -- as above
    nodes = tuple(snapshot.ClusterNode(f"node-{i:04}", 8, "gpu", f"rack-{i // 16:02}") for i in range(gpus // 8))
    present = {f"team/{i}": _some(f"team/{i}", draw_one) for i in range(count)}
    times = []
    for turn in range(DECISIONS if gpus < 1000 else DECISIONS // 4):
        snap = snapshot.Snapshot(cluster_nodes=nodes, jobs=tuple(present.values()))
        begin = time.process_time()
        made = deciding.decide(snap, settings.Settings())
        times.append(1000 * (time.process_time() - begin))
        for grant in made.grants:
            old = present[grant.job]
            present[grant.job] = dataclasses.replace(
                old, granted=grant.nodes, placement=grant.placement, age=old.age + 60
            )
        for name in draw_one.sample(sorted(present), max(count // 50, 1)):
            del present[name]
            present[f"{name}+{turn}"] = _some(f"{name}+{turn}", draw_one)
    return times[1:]


def _some(name: str, draw_one: random.Random) -> snapshot.Job:
    """Scales well to a size of its own, then less and less."""
    half = draw_one.choice((4, 8, 16, 32, 64))
    rates = tuple(n / (1 + n / half) for n in range(1, 65))
    return snapshot.Job(
        name=name, minimum=1, maximum=64, age=draw_one.expovariate(1 / 7200), curves={"": curves.Curve(rates)}
    )


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
