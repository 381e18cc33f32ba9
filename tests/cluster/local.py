"""The cluster on this computer: real Kubernetes components in namespaces, no Docker, no virtual machine.

It outlives the program that started it, and is found again by its name. Starting one first takes down whatever an
earlier one of the same name has left, so a launcher may be killed at any point.
"""

import contextlib
import shutil
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from cluster import (
    addresses,
    bringing_up,
    clusters,
    containerd,
    control_plane,
    errors,
    folders,
    limits,
    machines,
    nodes,
    packages,
    parts,
    policies,
    progress,
    storage,
    taking_down,
    tools,
    wiring,
)
from cluster.images import building, layouts, pause, stocks


class LocalCluster(clusters.Cluster):
    """A running local cluster; get one by `start`, or by `attach` if it runs already."""

    def __init__(self, site: parts.Parts) -> None:
        super().__init__(site.folder.name)
        self._site = site

    @classmethod
    def up(cls, name: str, *, nodes: int, gpus: int) -> "LocalCluster":
        """Bring up a fresh cluster with the project's images."""
        return cls.start(name=name, nodes=nodes, gpus_per_node=gpus, images=building.images())

    @classmethod
    def start(
        cls,
        *,
        name: str,
        nodes: int = 3,
        gpus_per_node: int = 2,
        images: Iterable[layouts.Image] = (),
        control_plane_only: bool = False,
    ) -> "LocalCluster":
        """Bring up a fresh cluster; what was there under this name is taken down first."""
        packages.ensure(packages.CONTROL_PLANE if control_plane_only else packages.CONTROL_PLANE | packages.NODE)
        limits.raise_inotify()
        tools.ensure(*tools.CONTROL_PLANE, *(() if control_plane_only else tools.NODE))
        with folders.held(name):
            taking_down.take_down(name)
            folder = folders.claimed(name)
            site = parts.Parts(folder, addresses.Addresses(_index_of(folder)))
            with _switched_off_on_failure(site):
                with progress.step(f"starting the control plane of cluster {name}"):
                    bringing_up.start_control_plane(site)
                if not control_plane_only:
                    names = [addresses.node_name(number) for number in range(1, nodes + 1)]
                    folder.stock.symlink_to(stocks.stocked([pause.image(), *images]))
                    with progress.step(f"starting {nodes} nodes"):
                        bringing_up.start_names(site)
                        bringing_up.start_nodes(site, names, gpus=gpus_per_node)
        return cls(site)

    @classmethod
    def attach(cls, name: str) -> "LocalCluster":
        """The cluster of this name that runs already."""
        folder = folders.of(name)
        site = parts.Parts(folder, addresses.Addresses(_index_of(folder)))
        if not site.control.machine.running:
            raise _not_there(name)
        return cls(site)

    @classmethod
    def stop(cls, name: str) -> None:
        """Take down whatever there is of the cluster of this name."""
        with folders.held(name):
            taking_down.take_down(name)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self._site.folder.kubeconfig

    @property
    def audit_log(self) -> Path:
        """The API server's audit log: one JSON object a line."""
        return self._site.folder.audit_log

    @property
    def node_names(self) -> list[str]:
        """The nodes, killed ones too."""
        return self._site.folder.node_names()

    def add_node(self, *, gpus: int = 2) -> str:
        """Add one more node, wait until it is Ready, and return its name."""
        numbers = [addresses.node_number(name) for name in self.node_names]
        name = addresses.node_name(max(numbers, default=0) + 1)
        bringing_up.start_nodes(self._site, [name], gpus=gpus)
        return name

    def kill_node(self, name: str) -> None:
        """Pull a node's plug: everything on it ends at once; Kubernetes still knows the node."""
        self._node(name).machine.kill()

    def cut_off(self, name: str) -> None:
        """Cut a node off from everybody; what runs on it goes on running."""
        wiring.set_cable(self._site.control.machine, self._node(name).name, plugged=False)

    def reconnect(self, name: str) -> None:
        """Undo `cut_off`."""
        wiring.set_cable(self._site.control.machine, self._node(name).name, plugged=True)

    @contextlib.contextmanager
    def enforcing_policies(self) -> Iterator[None]:
        """NetworkPolicies hold on the nodes that run, for as long as the block lasts."""
        packages.ensure(packages.POLICIES)
        with contextlib.ExitStack() as stack:
            for node in (node for node in self._site.nodes() if node.machine.running):
                policies.start(node, self.kubeconfig)
                stack.callback(policies.stop, node)
            yield

    def import_image(self, archive: Path) -> None:
        """Give an image archive (OCI or Docker) to every node that runs; nodes added later do not get it."""
        for node in self._site.nodes():
            if node.machine.running:
                containerd.take(node.machine, lambda pipe: _pour(archive, pipe))

    def load_image(self, reference: str) -> None:
        """Build one of the project's images if need be, and give it to every node that runs."""
        self.give_image(building.image(reference))

    def give_image(self, image: layouts.Image) -> None:
        """Give an image of the store to every node that runs."""
        for node in self._site.nodes():
            if node.machine.running:
                stocks.give(node.machine, node.images, [image])

    def check(self) -> None:
        """Nothing: `up` brings everything along."""

    def shared_storage(self) -> None:
        """Have empty volumes that all nodes share: the machines have one disk, so a folder of the host will do."""
        storage.provide(self, self._site.folder.shared)

    def start_node(self, name: str, *, gpus: int = 2) -> None:
        """Switch a killed node on again; its disk is as it was, its pods start anew."""
        bringing_up.reboot_node(self._site, self._node(name), gpus=gpus)

    def stop_component(self, component: str, *, crash: bool = False) -> None:
        """Stop a component of the control plane; a crash gives it no time to say goodbye."""
        how = signal.SIGKILL if crash else signal.SIGTERM
        self._site.control.machine.stop(component, with_signal=how)

    def start_component(self, component: str) -> None:
        """Start a component that was stopped."""
        control = self._site.control
        control.machine.start(*control.command(component))
        if component in control_plane.SERVERS:
            bringing_up.await_api(self._site)

    def _node(self, name: str) -> nodes.Node:
        if name not in self.node_names:
            raise errors.ClusterError(f"cluster {self.name} has no node {name!r}; it has {', '.join(self.node_names)}")
        return self._site.node(name)


@contextlib.contextmanager
def _switched_off_on_failure(site: parts.Parts) -> Iterator[None]:
    """Leave no half of a cluster running; its logs stay until the next start, for whoever wants to know more."""
    try:
        yield
    except BaseException:
        machines.kill_all(site.folder.path)
        raise


def _pour(archive: Path, pipe: IO[bytes]) -> None:
    with archive.open("rb") as source:
        shutil.copyfileobj(source, pipe, 1 << 20)


def _index_of(folder: folders.Folder) -> int:
    index = folder.index()
    if index is None:
        raise _not_there(folder.name)
    return index


def _not_there(name: str) -> errors.ClusterError:
    return errors.ClusterError(f"no cluster {name!r} is running; `python -m cluster up --name {name}` starts it")
