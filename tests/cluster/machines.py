"""A machine of the cluster: a process tree in network, mount, PID, host-name and cgroup namespaces of its own.

Its first process is `pause`, whose argument is the machine's folder: that is how it is found again, also by a launcher
that knows nothing of the one that started it. When the first process ends, the kernel ends everything else in the
machine, pods and all. A machine knows nothing of Kubernetes.
"""

import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cluster import cgroups, errors, processes, running, tools, waiting

BOOT_SECONDS = 10
STOP_SECONDS = 20
_NAMESPACES = ("--net", "--mount", "--pid", "--uts", "--cgroup")
_STAY = ("setsid", "--fork")


@dataclass(frozen=True)
class Machine:
    """One machine; `home` is its folder on the host, and its identity. Its own cgroup is part of `group`."""

    home: Path
    group: str

    @property
    def name(self) -> str:
        """The host name inside."""
        return self.home.name

    @property
    def logs(self) -> Path:
        """Where each component writes its log."""
        return self.home / "log"

    def boot(self) -> None:
        """Start the machine with nothing in it but its first process."""
        self.logs.mkdir(parents=True, exist_ok=True)
        init = [str(tools.path("pause")), str(self.home)]
        flags = [*_NAMESPACES, "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
        # Started as everybody's orphan: it outlives the launcher, and it is not the launcher that has to reap it.
        launch = cgroups.joining(self._cgroup, [*_STAY, "unshare", *flags, *init])
        with (self.logs / "boot").open("wb") as log:
            subprocess.run(launch, check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        waiting.until(f"machine {self.name} to boot", self._init, seconds=BOOT_SECONDS, check=self._booting)
        self.shell(f"hostname {self.name}; mount -t tmpfs tmpfs /run; ip link set lo up\n{cgroups.remounting()}")

    @property
    def running(self) -> bool:
        """Whether the machine is on."""
        return self._init() is not None

    def pid(self) -> int:
        """The first process, as the host sees it."""
        if init := self._init():
            return init.pid
        raise errors.ClusterError(f"machine {self.name} is not running")

    def entered(self, *command: str | Path) -> list[str]:
        """The command that runs the given one inside the machine."""
        return ["nsenter", "--target", str(self.pid()), *_NAMESPACES, "--", *(str(word) for word in command)]

    def run(self, *command: str | Path, input: str | bytes | None = None, seconds: float = 120) -> str:
        """Run a command inside to its end, and return what it printed."""
        return running.run(*self.entered(*command), input=input, seconds=seconds)

    def shell(self, script: str) -> str:
        """Run a few shell lines inside; the first that fails ends them."""
        return self.run("sh", "-euc", script)

    def network(self, *command: str | Path, input: str | None = None) -> str:
        """Run a command that is in the machine's network but otherwise on the host, whose process numbers it knows."""
        return running.run("nsenter", "--target", str(self.pid()), "--net", "--", *command, input=input)

    def listens(self, socket_path: str) -> bool:
        """Whether somebody inside listens on a socket of the machine's file system."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(f"/proc/{self.pid()}/root{socket_path}")
            except OSError:
                return False
            return True

    def start(self, *command: str | Path) -> None:
        """Start a component that stays; its first process is the parent, so the launcher may go away."""
        with self._log_of(command).open("ab") as log:
            launch = self.entered(*_STAY, *command)
            launch = cgroups.joining(self._cgroup, launch)
            subprocess.run(launch, check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self, component: str, *, with_signal: signal.Signals = signal.SIGTERM) -> None:
        """End one component and wait for its end; SIGKILL for a crash."""
        if processes.end(self._component(component), with_signal=with_signal, seconds=STOP_SECONDS):
            raise errors.ClusterError(f"{component} on {self.name} did not end within {STOP_SECONDS} s")

    def require(self, component: str) -> None:
        """Fail at once, with the log's end, if a component is not running."""
        if not processes.find(self._component(component)):
            raise errors.ClusterError(f"{component} on {self.name} has died:\n{running.tail_of(self.logs / component)}")

    def kill(self) -> None:
        """Pull the plug: everything in the machine ends at once, without a chance to say goodbye."""
        kill_all(self.home)
        # What containers leave there, the next kubelet takes for containers that run, and asks for one after the other.
        cgroups.remove(self._cgroup)

    @property
    def _cgroup(self) -> str:
        return f"{self.group}/{self.name}"

    def _log_of(self, command: tuple[str | Path, ...]) -> Path:
        return self.logs / Path(command[0]).name

    def _init(self) -> processes.Process | None:
        found = processes.find(lambda process: process.program == "pause" and process.words[1:] == (str(self.home),))
        return found[0] if found else None

    def _component(self, name: str) -> processes.Matcher:
        here = processes.look(self.pid()).namespace
        return lambda process: _runs(process, name) and process.namespace == here

    def _booting(self) -> None:
        if processes.find(lambda process: _belongs(process, self.home)):
            return
        raise errors.ClusterError(f"machine {self.name} did not boot:\n{running.tail_of(self.logs / 'boot')}")


def _belongs(process: processes.Process, folder: Path) -> bool:
    """Whether the process is the first one of a machine in the folder, or is just about to become it."""
    home = Path(process.words[-1]) if process.words else Path()
    return process.program in ("pause", "unshare", "setsid", "sh") and (home == folder or folder in home.parents)


def _runs(process: processes.Process, component: str) -> bool:
    """Whether the process is the component, or is just about to become it."""
    words = process.words[len(_STAY) :] if process.words[: len(_STAY)] == _STAY else process.words
    return bool(words) and Path(words[0]).name == component


def kill_all(folder: Path) -> None:
    """Kill every machine whose home is the folder or lies under it, half-booted ones too."""
    if left := processes.end(lambda process: _belongs(process, folder)):
        raise errors.ClusterError(f"machines that cannot be killed: {', '.join(one.words[-1] for one in left)}")
