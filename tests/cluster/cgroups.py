"""A cgroup for each cluster, with one in it for each machine, so that nothing stays behind in the kernel.

A machine has a cgroup namespace, so what it makes for containers is below its own, and is left behind when the machine
is killed. cgroup v1 (one tree for each controller) and v2 (one tree) are told apart by what this process is in. On a v2
host this has not been tried, and containers are not limited: their cgroup's parent would have to be free of processes.
"""

import contextlib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from cluster import waiting

REMOVE_SECONDS = 10
_ROOT = Path("/sys/fs/cgroup")
# A v1 cpuset takes no process before it is told which processors and memory it may use.
_INHERITED = ("cpuset.cpus", "cpuset.mems")


def create(group: str) -> list[Path]:
    """Make the group's cgroup in each tree, below this process's own, and return the folders."""
    folders = [tree.folder for tree in _own()]
    for part in group.split("/"):
        folders = [folder / part for folder in folders]
        for folder in folders:
            _make(folder)
    return folders


def remove(group: str) -> None:
    """Remove the group's cgroups, wherever they are, once their processes are gone, which the kernel notices late."""
    for folder in existing(group):
        waiting.until(f"cgroup {folder} to be empty", lambda: _removed(folder), seconds=REMOVE_SECONDS)  # noqa: B023


def existing(group: str) -> list[Path]:
    """The group's cgroups in all trees. Others come and go meanwhile, so only a walk that minds no error will do."""
    first, *rest = group.split("/")
    found = [Path(path, first, *rest) for path, names, _ in os.walk(_ROOT) if first in names]
    return [folder for folder in found if folder.is_dir()]


def joining(group: str, command: list[str]) -> list[str]:
    """The command that joins the group and then runs the given one."""
    files = [str(folder / "cgroup.procs") for folder in create(group)]
    join = f'for file in {shlex.join(files)}; do echo $$ >$file; done; exec "$@"'
    return ["sh", "-euc", join, "sh", *command]


def remounting() -> str:
    """Shell lines that mount the trees anew, as they are seen from a cgroup namespace."""
    return "\n".join(f"umount {shlex.quote(tree.point)}; {tree.mounting}" for tree in _own())


def limiting() -> bool:
    """Whether containers here are held to their memory limits."""
    return any("memory" in tree.controllers.split(",") for tree in _own())


@dataclass(frozen=True)
class Tree:
    """One tree: its controllers ("" in version 2), what of it is mounted, and where, and a process's cgroup in it."""

    controllers: str
    root: str
    point: str
    path: str

    @property
    def folder(self) -> Path:
        """The process's cgroup."""
        return Path(self.point, self.path.removeprefix(self.root).lstrip("/"))

    @property
    def mounting(self) -> str:
        """The command that mounts it, for a shell."""
        named = "none," if self.controllers.startswith("name=") else ""
        kind = f"cgroup -o {named}{self.controllers}" if self.controllers else "cgroup2"
        return f"mount -t {kind} cgroup {shlex.quote(self.point)}"


def trees(own: str, mounts: str) -> list[Tree]:
    """The trees that are mounted, from a process's /proc/PID/cgroup and the mounts that it sees."""
    found = []
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if at := _mount(controllers, mounts.splitlines()):
            found.append(Tree(controllers, *at, path))
    return found


def _own() -> list[Tree]:
    return trees(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())


def _mount(controllers: str, mounts: list[str]) -> tuple[str, str] | None:
    """What of the tree with these controllers is mounted, and where; None if it is not."""
    for mount in mounts:
        fields, _, source = mount.partition(" - ")
        kind, _, options = source.split(" ", 2)
        if kind == ("cgroup" if controllers else "cgroup2") and set(controllers.split(",")) <= {
            "",
            *options.split(","),
        }:
            root, point = fields.split(" ")[3:5]
            return root, point
    return None


def _make(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for file in _INHERITED:
        if (folder.parent / file).exists():
            (folder / file).write_text((folder.parent / file).read_text())


def _removed(folder: Path) -> bool:
    for path, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):  # it holds a process that is about to end
            Path(path).rmdir()
    return not folder.exists()
