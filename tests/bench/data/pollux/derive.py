"""How `placement_profile.csv` comes out of the public measurements: seconds to finish by application, batch size,
GPUs and the number of cluster nodes they are spread over.

Run by hand, `python derive.py SIMULATOR_DIR`, on an unpacked `simulator/` folder of petuum/adaptdl (README.md here
names the commit). It only reshapes measured step times; it holds no policy and nothing else imports it.
"""

from __future__ import annotations

import collections
import csv
import functools
import math
import pathlib
import sys

GPUS_PER_CLUSTER_NODE = 4
CLUSTER_NODES = 16
# First batch size, largest batch, smallest and largest batch of one GPU, epochs: the applications' own settings.
APPLICATIONS = {
    "bert": (12, 384, 4, 12, 2),
    "cifar10": (128, 4096, 32, 1024, 100),
    "ncf": (256, 32768, 32, 32768, 10),
    "imagenet": (200, 12800, 20, 200, 90),
    "deepspeech2": (20, 640, 10, 80, 80),
    "yolov3": (8, 512, 4, 8, 50),
}
Table = dict[int, dict[int, dict[int, list[tuple[float, float]]]]]


@functools.cache
def read(folder: pathlib.Path) -> Table:
    """Cluster nodes -> GPUs -> batch of one GPU -> measured (step, synchronising) seconds of every placement."""
    table: Table = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    for row in csv.DictReader((folder / "placements.csv").open()):
        digits = [int(digit) for digit in row["placement"]]
        if packed(digits) or math.ceil(sum(digits) / GPUS_PER_CLUSTER_NODE) < len(digits):
            times = float(row["step_time"]), float(row["sync_time"])
            table[len(digits)][sum(digits)][int(row["local_bsz"])].append(times)
    for row in csv.DictReader((folder / "scalability.csv").open()):
        times = float(row["step_time"]), float(row["sync_time"])
        table[int(row["num_nodes"])][int(row["num_replicas"])][int(row["local_bsz"])].append(times)
    return table


def packed(digits: list[int]) -> bool:
    """Whether all cluster nodes but one are full: what a scheduler that packs would do."""
    return sum(digit < GPUS_PER_CLUSTER_NODE for digit in digits) <= 1


def between(points: dict[float, tuple[float, float]], at: float) -> tuple[float, float]:
    """Linear between the two nearest points, flat outside."""
    below = max((p for p in points if p <= at), default=min(points))
    above = min((p for p in points if p >= at), default=max(points))
    part = 0.0 if above == below else (at - below) / (above - below)
    low, high = points[below], points[above]
    return low[0] + part * (high[0] - low[0]), low[1] + part * (high[1] - low[1])


def times(table: Table, gpus: int, nodes: int, batch: int) -> tuple[float, float]:
    """Between the measured numbers of cluster nodes at the same filling, there between GPUs, there between batches."""
    by_nodes = {}
    for measured in table:
        by_gpus = {}
        for count, batches in table[measured].items():
            means = {b: (mean(t[0] for t in ts), mean(t[1] for t in ts)) for b, ts in batches.items()}
            by_gpus[float(count)] = between({float(b): v for b, v in means.items()}, batch)
        by_nodes[float(measured)] = between(by_gpus, gpus * measured / nodes)
    return between(by_nodes, nodes)


def mean(values: collections.abc.Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def split(app: str, batch: int, gpus: int) -> tuple[int, int]:
    """Batch of one GPU in one pass, and passes per iteration, such that together they reach the wanted batch."""
    first, largest, _, local_max, _ = APPLICATIONS[app]
    local = math.ceil(batch / gpus)
    passes = math.ceil(local / local_max)
    if gpus == 1 and batch > first:
        passes = max(2, passes)
    return min(math.ceil(local / passes), largest // (gpus * passes)), passes


def iterations(folder: pathlib.Path, app: str, batch: int) -> float:
    """Iterations to the end: each epoch's progress over the statistical gain of this batch size in that epoch."""
    first, _, _, _, epochs = APPLICATIONS[app]
    sizes = sorted(int(p.stem.split("-")[1]) for p in folder.glob("validation-*.csv"))
    tables = {size: list(csv.DictReader((folder / f"validation-{size}.csv").open())) for size in sizes}
    done, total = 0.0, 0.0
    for epoch in range(epochs):
        progress = min(float(rows[epoch]["progress"]) for rows in tables.values())
        noise = {float(size): (float(r[epoch]["grad_sqr"]), float(r[epoch]["grad_var"])) for size, r in tables.items()}
        sqr, var = between(noise, batch)
        total += (progress - done) * (var / (batch / first) + sqr) / (var + sqr)
        done = progress
    return total


def seconds(simulator: pathlib.Path, app: str, batch: int, gpus: int) -> list[float]:
    """Seconds to finish on the fewest cluster nodes that hold so many GPUs, on one more, and so on to one GPU on
    each.
    """
    folder = simulator / "traces" / app
    atomic, passes = split(app, batch, gpus)
    table, steps = read(folder), iterations(folder, app, gpus * atomic * passes)
    spread = range(math.ceil(gpus / GPUS_PER_CLUSTER_NODE), min(gpus, CLUSTER_NODES) + 1)
    each = [times(table, gpus, nodes, atomic) for nodes in spread]
    return [steps * (step + (passes - 1) * (step - sync)) for step, sync in each]


def main(simulator: pathlib.Path, jobs: list[pathlib.Path], out: pathlib.Path) -> None:
    wanted = {(r["application"], int(r["batch_size"])) for path in jobs for r in csv.DictReader(path.open())}
    with out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["application", "batch_size", "gpus", "fewest_cluster_nodes", "seconds_by_cluster_nodes"])
        for app, batch in sorted(wanted):
            most = 1 if app == "ncf" else min(GPUS_PER_CLUSTER_NODE * CLUSTER_NODES, batch // APPLICATIONS[app][2])
            for gpus in range(1, most + 1):
                each = seconds(simulator, app, batch, gpus)
                fewest = math.ceil(gpus / GPUS_PER_CLUSTER_NODE)
                writer.writerow([app, batch, gpus, fewest, " ".join(f"{s:.0f}" for s in each)])


if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    main(pathlib.Path(sys.argv[1]), sorted((here / "workloads").glob("*.csv")), here / "placement_profile.csv")
