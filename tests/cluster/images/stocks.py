"""Stocks: containerd roots in the cache, with a set of images already unpacked, that nodes start from.

To unpack a gigabyte costs a quarter of a minute and a gigabyte on each node; to start from a stock costs neither. A
node gets its own copy of the small files (databases, written in place), hard links to the blobs, and symbolic links to
the unpacked layers: containerd only ever reads a committed layer, and removes one by removing the link.
"""

import os
import shutil
from collections.abc import Collection
from pathlib import Path

from cluster import caching, cgroups, containerd, folders, machines, progress, running
from cluster.images import layouts

KEEP = 3
WORTH_BYTES = 50_000_000
_LAYERS = "io.containerd.snapshotter.v1.overlayfs/snapshots"
_BLOBS = "io.containerd.content.v1.content/blobs"


def stocked(images: Collection[layouts.Image]) -> Path:
    """A containerd root with these images; when it is missing it is made, from the newest stock if there is one."""
    version = running.run("containerd", "--version")
    parts = sorted(f"{image.name}@{image.digest}" for image in images)
    with caching.lock(_root() / ".lock"):
        stock = caching.made(_root() / caching.key([version, *parts]), lambda draft: _make(draft, images))
        os.utime(stock)
        _forget_old()
    return stock


def hand_out(stock: Path, target: Path) -> None:
    """Give a node a containerd root of its own that starts with what the stock has."""
    _copy_small_files(stock, target)
    _hard_link(stock / _BLOBS, target / _BLOBS)
    (target / _LAYERS).mkdir(parents=True, exist_ok=True)
    for layer in (stock / _LAYERS).iterdir():
        (target / _LAYERS / layer.name).symlink_to(layer)


def give(machine: machines.Machine, root: Path, images: Collection[layouts.Image]) -> None:
    """Give images of the store to a running containerd, whose root it is, without the blobs that it has already."""
    containerd.take(machine, lambda pipe: layouts.store().stream(images, pipe, known=_digests(root)))


def _make(draft: Path, images: Collection[layouts.Image]) -> None:
    with progress.step(f"unpacking {len(images)} images for the nodes"):
        if earlier := _worth_starting_from(images):
            _copy_small_files(earlier, draft)
            _hard_link(earlier / _BLOBS, draft / _BLOBS)
            _hard_link(earlier / _LAYERS, draft / _LAYERS)
        _import(draft, images)


def clear_abandoned() -> None:
    """Clear away what a process that was killed while it made a stock has left; one that is at work is left alone."""
    with caching.lock_if_free(_root() / ".lock") as ours:
        if ours:
            _clear(_importer())


def _import(root: Path, images: Collection[layouts.Image]) -> None:
    """Run a containerd on the root, in a machine of its own, for as long as it takes to import the images."""
    machine = _importer()
    _clear(machine)
    try:
        machine.boot()
        config = machine.home / "containerd.toml"
        config.write_text(containerd.configuration(root=root, pod_network=machine.home / "cni"))
        containerd.start(machine, config)
        give(machine, root, images)
        containerd.collect_garbage(machine)
        machine.stop("containerd")
    finally:
        _clear(machine)


def _importer() -> machines.Machine:
    home = caching.root() / "importer"
    return machines.Machine(home, f"elasticjob-{caching.key([str(home)])}")


def _clear(machine: machines.Machine) -> None:
    machine.kill()
    cgroups.remove(machine.group)
    caching.remove(machine.home)


def _copy_small_files(source: Path, target: Path) -> None:
    large = {source / _BLOBS, source / _LAYERS}
    shutil.copytree(
        source,
        target,
        ignore=lambda folder, names: {name for name in names if Path(folder, name) in large},
        dirs_exist_ok=True,
    )


def _hard_link(source: Path, target: Path) -> None:
    running.run("cp", "--archive", "--link", "--no-target-directory", source, target)


def _digests(root: Path) -> set[str]:
    return {f"sha256:{blob.name}" for blob in root.glob(f"{_BLOBS}/sha256/*")}


def _worth_starting_from(images: Collection[layouts.Image]) -> Path | None:
    """The stock that has most of what these images consist of, if that is more than it costs to link its files."""
    sizes = {blob["digest"]: blob["size"] for image in images for blob in layouts.store().blobs(image.manifest)}
    shared = {stock: sum(sizes.get(digest, 0) for digest in _digests(stock)) for stock in _by_age()}
    best = max(shared, key=shared.__getitem__, default=None)
    return best if best and shared[best] >= WORTH_BYTES else None


def _by_age() -> list[Path]:
    """The stocks, the one used last first."""
    stocks = (path for path in _root().iterdir() if path.is_dir() and not path.name.startswith("."))
    return sorted(stocks, key=lambda path: path.stat().st_mtime, reverse=True)


def _forget_old() -> None:
    """Remove stocks that were not used lately, but none that a cluster was started from."""
    used = {link.readlink() for link in folders.root().glob(f"*/{folders.STOCK}")}
    for stock in _by_age()[KEEP:]:
        if stock not in used:
            caching.remove(stock)


def _root() -> Path:
    return caching.root() / "stocks"
