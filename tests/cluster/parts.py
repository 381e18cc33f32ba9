"""What one local cluster consists of, put together from its folder and its index. Only names and places: no action."""

from dataclasses import dataclass
from pathlib import Path

from cluster import addresses, api, control_plane, folders, machines, nodes, pki


@dataclass(frozen=True)
class Parts:
    """The machines, certificates and addresses of one cluster."""

    folder: folders.Folder
    own: addresses.Addresses

    @property
    def authority(self) -> pki.Authority:
        """Who issues the certificates."""
        return pki.Authority(self.folder.pki)

    @property
    def control(self) -> control_plane.ControlPlane:
        """The control plane."""
        machine = self._machine(self.folder.control)
        return control_plane.ControlPlane(machine, self.own, self.authority, self.folder.audit_log)

    @property
    def api(self) -> api.Api:
        """The API, as the administrator."""
        return api.Api(self.own.control_plane, self.authority, self.authority.pair("admin"))

    def node(self, name: str) -> nodes.Node:
        """A node, whether it runs or not."""
        return nodes.Node(self._machine(self.folder.node(name)), self.own, self.authority)

    def nodes(self) -> list[nodes.Node]:
        """Every node that was ever added."""
        return [self.node(name) for name in self.folder.node_names()]

    def _machine(self, home: Path) -> machines.Machine:
        return machines.Machine(home, self.folder.cgroup)
