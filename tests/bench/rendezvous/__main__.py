"""The rendezvous' figures, ours beside torch's own: ``python -m bench.rendezvous [--quick] [PART ...]``.

Every part runs all backends one after the other on the same machine, and appends its figures to
``build/bench/rendezvous.jsonl``. At the end they stand in one table.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from bench.rendezvous import backends, figures, forming, quiet, recovery
from cluster import LocalCluster
from support import checkout, forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.rendezvous.backends import Backend
    from bench.rendezvous.forming import Case

ROOT = pathlib.Path(__file__).parents[3]
OUT = ROOT / "build/bench"
LOADED = (
    "bench.rendezvous.crowd",
    "bench.rendezvous.joining",
    "bench.rendezvous.agent",
    "torch.distributed.elastic.rendezvous.etcd_rendezvous_backend",
    "bench.rendezvous.loaded",
)
"""What nodes need: loaded once, for no backend is to be measured by its imports."""

STEADY_NODES = 64
STEADY_SECONDS = 24.0
"""Two renewals of a Lease."""


class Bench:
    """What the parts share: where figures go, and the backends. ``torchs`` are the built-in ones."""

    def __init__(self, report: figures.Report, cluster: LocalCluster, torchs: list[Backend]) -> None:
        self.report, self.torchs = report, torchs
        self.ours: Backend = backends.Kubernetes(cluster)
        self.standalone: Backend = backends.Kubernetes(cluster, planned=False)
        self.log = OUT / "rendezvous.log"
        self.log.write_text("")

    def form(self, case: Case) -> None:
        """Measures one case of forming."""
        self.report.add(forming.run(case, self.log))


def smoke(bench: Bench) -> None:
    """The smallest of each: that the benchmark is alive."""
    for backend in (bench.ours, bench.torchs[0]):
        bench.form(forming.Case(backend, 2, again=True))


def form(bench: Bench) -> None:
    """Figures 1 and 3, small ones more than once. Beyond 64 nodes torch's backends need minutes."""
    for nodes, times in ((2, 3), (8, 3), (32, 1), (64, 1)):
        for backend in (bench.ours, *bench.torchs) * times:
            mine = backend is bench.ours
            steady = (STEADY_SECONDS if mine else STEADY_SECONDS / 3) if nodes == STEADY_NODES else 0
            bench.form(forming.Case(backend, nodes, steady=steady, again=mine or nodes < STEADY_NODES))
    bench.form(forming.Case(bench.ours, 128, again=True))
    bench.form(forming.Case(bench.ours, 256, steady=STEADY_SECONDS, again=True))


def below_max(bench: Bench) -> None:
    """Figure 2: more nodes might come. Torch's backends mostly wait, so they do it at the same time."""
    for nodes in (8, 64):
        for backend in (bench.ours, bench.standalone):
            bench.form(forming.Case(backend, nodes, low=nodes // 2, high=2 * nodes))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(bench.form, [forming.Case(backend, 8, low=4, high=16) for backend in bench.torchs]))


def thousand(bench: Bench) -> None:
    """Figure 5. At once they would ask more than two cores can answer: they come over half a minute."""
    bench.form(forming.Case(bench.ours, 1000, spread=30, limit=180))


def recover(bench: Bench) -> None:
    """Figure 4. Whom torch's backends don't miss they mostly wait for, so they do it at the same time."""
    folder = OUT / "rendezvous"
    shutil.rmtree(folder, ignore_errors=True)
    for backend in (bench.ours, *bench.torchs):
        bench.report.add(recovery.restored(backend, folder))
    bench.report.add(recovery.left_behind(bench.ours, folder))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda backend: bench.report.add(recovery.left_behind(backend, folder)), bench.torchs))


PARTS: dict[str, Callable[[Bench], None]] = {
    "form": form,
    "below-max": below_max,
    "thousand": thousand,
    "recover": recover,
}


def main(arguments: list[str]) -> None:
    """The parts in order."""
    parser = argparse.ArgumentParser(prog="bench.rendezvous", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only show that the benchmark is alive")
    parser.add_argument("--cluster", help="a control plane that runs already, by its name")
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)}; all when none is named")
    given = parser.parse_args(arguments)
    if unknown := set(given.part) - PARTS.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    quiet.enter()
    began = time.monotonic()
    with _bench("rendezvous-quick" if given.quick else "rendezvous", given.cluster) as bench:
        for part in [smoke] if given.quick else [PARTS[name] for name in given.part or PARTS]:
            part(bench)
        print(figures.table(bench.report.figures))
    print(f"{time.monotonic() - began:.0f} s, load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


@contextlib.contextmanager
def _bench(name: str, running: str | None) -> Iterator[Bench]:
    """Servers to measure against; figures go into the file *name*."""
    forks.preload(*LOADED)
    with contextlib.ExitStack() as stack:
        torchs: list[Backend] = [backends.C10d()]
        try:
            torchs.append(stack.enter_context(backends.etcd_v2()))
        except (ImportError, OSError, subprocess.SubprocessError) as error:
            print(f"without etcd-v2: {error}")
        if running is not None:
            cluster = LocalCluster.attach(running)
        else:
            cluster = LocalCluster.start(name=checkout.cluster_name("bench"), control_plane_only=True)
            stack.callback(cluster.down)
        yield Bench(figures.Report(OUT / f"{name}.jsonl"), cluster, torchs)


if __name__ == "__main__":
    main(sys.argv[1:])
