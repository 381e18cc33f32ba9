"""A cgroup for each cluster, with one in it for each machine, so that nothing stays behind in the kernel.

A container's cgroup is made below that of containerd, and is left behind when a machine is killed. cgroup v1 (one tree
for each controller) and v2 (one tree) are told apart by what this process is in. Nothing is limited here. On a v2 host
this has not been tried.
"""

import contextlib
import os
import shlex
from pathlib import Path

from cluster import waiting

REMOVE_SECONDS = 10
_ROOT = Path("/sys/fs/cgroup")
# A v1 cpuset takes no process before it is told which processors and memory it may use.
_INHERITED = ("cpuset.cpus", "cpuset.mems")


def create(group: str) -> list[Path]:
    """Make the group's cgroup in each tree, below this process's own, and return the folders."""
    own, mounts = Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()
    folders = parents(own, mounts)
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


def parents(own: str, mounts: str) -> list[Path]:
    """The cgroup folders of a process, from its /proc/PID/cgroup and the mounts that it sees."""
    found = [_folder(line, mounts.splitlines()) for line in own.splitlines()]
    return [folder for folder in found if folder]


def _folder(line: str, mounts: list[str]) -> Path | None:
    """Where the cgroup of one line of /proc/PID/cgroup is to be found; None if its tree is not mounted."""
    _, controllers, path = line.split(":", 2)
    for mount in mounts:
        fields, _, source = mount.partition(" - ")
        kind, _, options = source.split(" ", 2)
        if kind == ("cgroup" if controllers else "cgroup2") and set(controllers.split(",")) <= {
            "",
            *options.split(","),
        }:
            root, point = fields.split(" ")[3:5]
            return Path(point, path.removeprefix(root).lstrip("/"))
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
