"""What the demo and the tests may expect of a cluster, whoever provides it: see `local`, `kind` and `current`."""

import abc
import shutil
from pathlib import Path

from cluster import errors, running, tools


class Cluster(abc.ABC):
    """A running cluster, with the project's images and shared storage if it was asked for them."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    @abc.abstractmethod
    def up(cls, name: str, *, nodes: int, gpus: int) -> "Cluster":
        """Bring up a cluster of this name with the project's images; an old one of this name makes place for it."""

    @classmethod
    @abc.abstractmethod
    def attach(cls, name: str) -> "Cluster":
        """The cluster of this name that runs already."""

    @classmethod
    @abc.abstractmethod
    def stop(cls, name: str) -> None:
        """Take down the cluster of this name, whole or in pieces; nothing that `up` made stays."""

    @property
    @abc.abstractmethod
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""

    @abc.abstractmethod
    def load_image(self, reference: str) -> None:
        """Have one of the project's images, by the name that pods use, on the nodes, as its sources are now."""

    @abc.abstractmethod
    def shared_storage(self) -> None:
        """Have volumes of the class `elasticjob-shared` that pods on all nodes can write to, empty ones."""

    @abc.abstractmethod
    def check(self) -> None:
        """See that what the demo needs, and nobody here brings along, is there."""

    def down(self) -> None:
        """Take this cluster down."""
        self.stop(self.name)

    def kubectl(self, *args: str | Path, input: str | bytes | None = None, seconds: float = 120) -> str:
        """Run kubectl as the administrator, and return what it printed."""
        return running.run(_program("kubectl"), f"--kubeconfig={self.kubeconfig}", *args, input=input, seconds=seconds)

    def helm(self, *args: str | Path, seconds: float = 300) -> str:
        """Run Helm as the administrator, and return what it printed."""
        return running.run(_program("helm"), f"--kubeconfig={self.kubeconfig}", *args, seconds=seconds)


def _program(name: str) -> Path:
    """The pinned program if it is built or Go is there to build it; else the machine's own."""
    own = shutil.which(name)
    if own and not shutil.which("go"):
        return Path(own)
    if not shutil.which("go"):
        raise errors.ClusterError(f"{name} is not installed, and neither is Go to build it: install one of the two")
    return tools.path(name)
