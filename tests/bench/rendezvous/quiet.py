"""A mount namespace of our own, with what a pod has and without what would disturb.

A pod finds the API by its ServiceAccount's files; here they are a file system of this process and its children alone.
Name service is left out: torch's TCPStore looks up the name of every peer, and where the resolver drops packets each of
these waits 5 s, whichever the backend.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sys

_INSIDE = "ELASTICJOB_BENCH_INSIDE"
ACCOUNT = pathlib.Path("/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its ServiceAccount's token."""

MEMORY = pathlib.Path("/run/secrets")
"""A file system in memory, gone with this process."""

_SHELL = """
set -e
mount --make-rprivate /
mkdir -p /run/secrets
mount -t tmpfs tmpfs /run/secrets
mkdir -p /run/secrets/kubernetes.io/serviceaccount
echo 'hosts: files' >/run/secrets/nsswitch.conf
mount --bind /run/secrets/nsswitch.conf /etc/nsswitch.conf
exec "$@"
"""


def enter() -> None:
    """Starts this program again inside, if it is not there yet."""
    if _INSIDE in os.environ:
        return
    unshare = shutil.which("unshare")
    if os.geteuid() != 0 or unshare is None:
        raise SystemExit("the benchmark needs root on Linux, as the cluster of the tests does")
    spec = sys.modules["__main__"].__spec__
    if spec is None:
        raise SystemExit("start the benchmark with python -m bench.rendezvous")
    again = [sys.executable, "-m", spec.name.removesuffix(".__main__"), *sys.argv[1:]]
    os.execve(unshare, [unshare, "--mount", "sh", "-c", _SHELL, "sh", *again], {**os.environ, _INSIDE: "1"})  # noqa: S606


def be_pod(url: str, *, token: str, authority: bytes, namespace: str) -> None:
    """From now on this process and its children are in a pod of *namespace*, as far as the client can tell."""
    ACCOUNT.mkdir(parents=True, exist_ok=True)
    for name, text in (("token", token.encode()), ("ca.crt", authority), ("namespace", namespace.encode())):
        (ACCOUNT / name).write_bytes(text)
    host, _, port = url.removeprefix("https://").rpartition(":")
    os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"] = host.strip("[]"), port
