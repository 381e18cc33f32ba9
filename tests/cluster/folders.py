"""The folder of a cluster, and the index that it holds: all that is remembered of a cluster between two commands.

What runs is not written down here but seen (see `processes`), so that nothing on disk can be wrong about it.
"""

import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from cluster import addresses, caching, errors, running

STOCK = "stock"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")


@dataclass(frozen=True)
class Folder:
    """Where everything of one cluster lies."""

    path: Path

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.path.name

    @property
    def control(self) -> Path:
        """The control plane's machine."""
        return self.path / "control"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.path / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log: one JSON object a line."""
        return self.path / "audit.log"

    @property
    def pki(self) -> Path:
        """Certificates and keys."""
        return self.path / "pki"

    @property
    def shared(self) -> Path:
        """What the cluster's shared volumes hold."""
        return self.path / "shared"

    @property
    def stock(self) -> Path:
        """A link to the images that nodes start with."""
        return self.path / STOCK

    @property
    def cgroup(self) -> str:
        """The cgroup of all that runs; another user may have a cluster of the same name."""
        return f"elasticjob-{caching.key([str(self.path)])}"

    def node(self, name: str) -> Path:
        """A node's machine."""
        return self.path / "nodes" / name

    def node_names(self) -> list[str]:
        """The nodes that were ever added, in order."""
        names = (path.name for path in (self.path / "nodes").glob("node-*"))
        return sorted(names, key=addresses.node_number)

    def index(self) -> int | None:
        """The index that this cluster holds, if its folder says so."""
        return parse_index(self._state().read_text()) if self._state().exists() else None

    def claim(self, index: int) -> None:
        """Make the folder, and hold the index from now on."""
        self.path.mkdir(parents=True, mode=0o755)
        self._state().write_text(json.dumps({"index": index}))

    def _state(self) -> Path:
        return self.path / "cluster.json"


def parse_index(text: str) -> int | None:
    """The index in a state file; None when the file was cut short by a crash or is none of ours."""
    try:
        index = json.loads(text)["index"]
    except (ValueError, KeyError, TypeError):
        return None
    return index if isinstance(index, int) and 0 <= index < addresses.MAX_CLUSTERS else None


def root() -> Path:
    """Where the clusters of this user lie."""
    return caching.root() / "clusters"


def of(name: str) -> Folder:
    """The folder of the cluster with this name, whether it exists or not."""
    if not _NAME.fullmatch(name):
        raise errors.ClusterError(f"{name!r} is no name for a cluster: small letters, digits and dashes, at most 32")
    return Folder(root() / name)


def held(name: str) -> contextlib.AbstractContextManager[None]:
    """Hold a cluster's name while it comes up or goes down: two launchers of one name come one after the other."""
    return caching.lock(of(name).path.with_name(f".{name}.lock"))


def claimed(name: str) -> Folder:
    """Make a cluster's folder and give it the first index that neither a cluster nor the host's network uses."""
    folder = of(name)
    with caching.lock(root() / ".lock"):
        others = {Folder(path).index() for path in root().iterdir() if path.is_dir()}
        routes = running.run("ip", "-4", "route", "show", "table", "all")
        folder.claim(free_index(others, routes))
    return folder


def free_index(taken: set[int | None], routes: str) -> int:
    """The first index that is not taken, and whose subnet appears in no route."""
    for index in range(addresses.MAX_CLUSTERS):
        if index not in taken and f"10.200.{index}." not in routes:
            return index
    raise errors.ClusterError(f"all {addresses.MAX_CLUSTERS} subnets of 10.200.0.0/16 are taken")
