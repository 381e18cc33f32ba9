"""containerd inside a machine: its configuration, its start, and giving it images."""

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

from cluster import cgroups, errors, machines, running, waiting
from cluster.images import pause

SOCKET = "/run/containerd/containerd.sock"
CNI_PROGRAMS = "/usr/lib/cni"
START_SECONDS = 30
IMPORT_SECONDS = 300

# In namespaces of our own there is no AppArmor to set up, and OOM scores cannot be lowered.
# Garbage is collected when an image is removed, and never by the way: when a name passes to a newer image, what was the
# older one's is garbage, and would be taken from under the newer one that is just being unpacked on top of it.
CONFIG = """\
version = 2
root = "{root}"
state = "/run/containerd"
[grpc]
  address = "{socket}"
[plugins."io.containerd.gc.v1.scheduler"]
  mutation_threshold = 0
  startup_delay = "24h"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_cgroup = {unlimited}
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{pod_network}"
"""

NOT_YET = "server is not initialized yet"
"""What containerd answers a kubelet as long as it looks through the containers that are there."""


def configuration(*, root: Path, pod_network: Path) -> str:
    """The configuration file; `root` is where images and layers are kept, `pod_network` the folder of CNI's files."""
    unlimited = "false" if cgroups.limiting() else "true"
    return CONFIG.format(
        root=root, pod_network=pod_network, socket=SOCKET, pause=pause.NAME, cni=CNI_PROGRAMS, unlimited=unlimited
    )


def start(machine: machines.Machine, config: Path) -> None:
    """Start containerd and wait until it answers."""
    machine.start("containerd", "--config", config)
    waiting.until(
        f"containerd on {machine.name}",
        lambda: machine.listens(SOCKET),
        seconds=START_SECONDS,
        check=lambda: machine.require("containerd"),
    )


def collect_garbage(machine: machines.Machine) -> None:
    """Have containerd drop what no image needs any more; removing a name at once is what makes it do so now."""
    ctr = ("ctr", "--address", SOCKET, "--namespace", "k8s.io", "images")
    machine.run(*ctr, "tag", pause.NAME, "elasticjob.invalid/garbage:1")
    machine.run(*ctr, "rm", "--sync", "elasticjob.invalid/garbage:1")


def take(machine: machines.Machine, write: Callable[[IO[bytes]], object]) -> None:
    """Import the image archive that `write` writes; Kubernetes sees its images at once."""
    command = machine.entered("ctr", "--address", SOCKET, "--namespace", "k8s.io", "images", "import", "-")
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as importing:
        watchdog = threading.Timer(IMPORT_SECONDS, importing.kill)
        watchdog.start()
        said = _fed(importing, write)
        watchdog.cancel()
    if importing.returncode != 0:
        raise errors.ClusterError(f"{machine.name} cannot import an image:\n{running.tail(said)}")


def _fed(importing: "subprocess.Popen[bytes]", write: Callable[[IO[bytes]], object]) -> str:
    """Feed the importer, and return what it said; one that has died breaks the pipe, and its words tell why."""
    if importing.stdin is None or importing.stdout is None:
        raise AssertionError("started with pipes")
    try:
        with importing.stdin as pipe:
            write(pipe)
    except BrokenPipeError:
        pass
    return importing.stdout.read().decode(errors="replace")
