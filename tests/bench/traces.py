"""The public traces as the simulator's jobs: Pollux's eight workloads, ElasticFlow's 195 jobs, Parcae's spot trace."""

from __future__ import annotations

import csv
import functools
import pathlib

from elasticjob_operator.autoscaler import snapshot
from elasticjob_operator.autoscaler.simulating import jobs, replaying

DATA = pathlib.Path(__file__).parent / "data"


def _rows(path: pathlib.Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@functools.cache
def pollux_profiles() -> dict[tuple[str, str], jobs.Profile]:
    """Progress per second as a part of the whole job, so every job's work is 1."""
    rates: dict[tuple[str, str], dict[int, tuple[float, ...]]] = {}
    fewest: dict[tuple[str, str], dict[int, int]] = {}
    for row in _rows(DATA / "pollux/placement_profile.csv"):
        key, gpus = (row["application"], row["batch_size"]), int(row["gpus"])
        rates.setdefault(key, {})[gpus] = tuple(1 / float(s) for s in row["seconds_by_cluster_nodes"].split())
        fewest.setdefault(key, {})[gpus] = int(row["fewest_cluster_nodes"])
    return {key: jobs.Profile(rates[key], fewest[key]) for key in rates}


def pollux(workload: int) -> list[jobs.TraceJob]:
    """160 jobs in 8 hours."""
    return [
        jobs.TraceJob(
            name=row["name"],
            submitted=float(row["time"]),
            work=1.0,
            profile=profile,
            minimum=1,
            maximum=max(profile.rates),
            requested=int(row["num_replicas"]),
        )
        for row in _rows(DATA / f"pollux/workloads/workload-{workload}.csv")
        for profile in [pollux_profiles()[row["application"], row["batch_size"]]]
    ]


@functools.cache
def elasticflow_profiles() -> dict[tuple[str, str], jobs.Profile]:
    """Iterations per second, linear between the measured powers of two; placement makes no difference in this data."""
    out = {}
    for path in sorted((DATA / "elasticflow/throughputs_A100").glob("*.csv")):
        for row in _rows(path):
            batch = row.pop("global_batch_size")
            known = {int(n): float(v) for n, v in row.items() if v and float(v) > 0}
            sizes = range(1, max(known) + 1)
            out[path.stem, batch] = jobs.Profile({n: (_linear(known, n),) for n in sizes}, dict.fromkeys(sizes, 1))
    return out


def _linear(known: dict[int, float], at: int) -> float:
    low, high = max(n for n in known if n <= at), min(n for n in known if n >= at)
    return known[low] if low == high else known[low] + (known[high] - known[low]) * (at - low) / (high - low)


def elasticflow() -> list[jobs.TraceJob]:
    """195 jobs in two days."""
    rows = _rows(DATA / "elasticflow/195job.csv")
    begin = min(float(row["submission_time"]) for row in rows)
    return [
        jobs.TraceJob(
            name=row["job_id"],
            submitted=float(row["submission_time"]) - begin,
            work=float(row["num_iteration"]),
            profile=profile,
            minimum=1,
            maximum=max(profile.rates),
            requested=int(row["num_gpu"]),
        )
        for row in rows
        for profile in [elasticflow_profiles()[row["model_name"], row["batch_size"]]]
    ]


def cluster(count: int, each: int) -> list[replaying.Event]:
    """A cluster that stays as it is."""
    return [replaying.Event(0.0, tuple(snapshot.ClusterNode(f"node-{i:03}", each) for i in range(count)))]


def spot(stable: int, each: int) -> list[replaying.Event]:
    """Parcae's p3 trace as volatile cluster nodes beside stable ones; the file's times are milliseconds."""
    firm = [snapshot.ClusterNode(f"stable-{i:02}", each) for i in range(stable)]
    present: dict[str, snapshot.ClusterNode] = {}
    by_time: dict[float, tuple[snapshot.ClusterNode, ...]] = {}
    with (DATA / "spot/p3trace.csv").open(newline="") as file:
        for at, what, name in csv.reader(file):
            if what == "add":
                present[name] = snapshot.ClusterNode(name, each, volatile=True)
            else:
                present.pop(name, None)
            by_time[float(at) / 1000] = (*firm, *present.values())
    return [replaying.Event(at, nodes) for at, nodes in by_time.items()]


def spot_lifetime() -> float:
    """Seconds that a cluster node of the spot trace lasts: those of all by how many vanish."""
    with (DATA / "spot/p3trace.csv").open(newline="") as file:
        rows = [(float(at) / 1000, what) for at, what, _ in csv.reader(file)]
    end = rows[-1][0]
    seconds = sum((end - at) * (1 if what == "add" else -1) for at, what in rows)
    return seconds / sum(what == "remove" for _, what in rows)
