"""Debian packages that the local cluster needs; installed when they are missing and this is root on Debian.

Elsewhere one line tells what else can be done.
"""

import os
import shutil

from cluster import errors, progress, running

ELSEWHERE = "use a kind cluster (CLUSTER=kind) or the current kubeconfig (CLUSTER=current) instead"

# A program that shows that the package is there, and the package.
CONTROL_PLANE = {"ip": "iproute2", "openssl": "openssl", "nsenter": "util-linux"}
NODE = {
    "containerd": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}
POLICIES = {"iptables": "iptables", "ipset": "ipset"}
IMAGES = {"mmdebstrap": "mmdebstrap", "buildah": "buildah"}


def ensure(needed: dict[str, str]) -> None:
    """Install what is missing."""
    if os.geteuid() != 0:
        raise errors.ClusterError(f"the local cluster needs root on Linux; {ELSEWHERE}")
    missing = sorted({package for program, package in needed.items() if shutil.which(program) is None})
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise errors.ClusterError(f"the local cluster needs {', '.join(missing)} and this is not Debian; {ELSEWHERE}")
    with progress.step(f"installing {', '.join(missing)}"):
        running.run("apt-get", "update", "--quiet", seconds=300)
        options = ("--yes", "--quiet", "--no-install-recommends")
        running.run("apt-get", "install", *options, *missing, seconds=600, env={"DEBIAN_FRONTEND": "noninteractive"})
