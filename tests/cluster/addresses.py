"""Which address, subnet and link name belongs to what. Pure arithmetic: nothing here asks the machine.

Each cluster has an index of its own, from which everything follows that is visible outside its namespaces: one subnet
and one link on the host. What is inside (pods, Services) may be the same in every cluster.
"""

from dataclasses import dataclass

MAX_CLUSTERS = 200
MAX_NODES = 40
SERVICE_SUBNET = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
POD_SUBNET = "10.244.0.0/16"
API_PORT = 6443


@dataclass(frozen=True)
class Addresses:
    """The addresses of one cluster; `index` is what tells two clusters on one machine apart."""

    index: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < MAX_CLUSTERS:
            raise ValueError(f"cluster index {self.index} is not in 0..{MAX_CLUSTERS - 1}")

    @property
    def control_plane(self) -> str:
        """The control plane's machine; it is every node's gateway too."""
        return self._host(1)

    @property
    def host(self) -> str:
        """This computer's own end of the link into the cluster."""
        return self._host(254)

    @property
    def host_link(self) -> str:
        """The one link that a cluster adds to the host."""
        return f"elasticjob{self.index}"

    @property
    def api_url(self) -> str:
        """Where the API server answers, from the host and from every machine of the cluster."""
        return f"https://{self.control_plane}:{API_PORT}"

    def link_address(self, last: int) -> str:
        """The link-layer address that goes with the address that ends like this."""
        return f"02:00:0a:c8:{self.index:02x}:{last:02x}"

    def node(self, number: int) -> str:
        """A node's address; nodes are numbered from 1."""
        return self._host(10 + _checked(number))

    def _host(self, last: int) -> str:
        return f"10.200.{self.index}.{last}"


def node_name(number: int) -> str:
    """The name of a node, as Kubernetes knows it."""
    return f"node-{_checked(number)}"


def node_number(name: str) -> int:
    """The number behind a node's name; the opposite of `node_name`."""
    prefix, _, digits = name.rpartition("-")
    if prefix != "node" or not digits.isdecimal() or digits != str(int(digits)):
        raise ValueError(f"{name!r} is not the name of a node (node-1, node-2, …)")
    return _checked(int(digits))


def pod_subnet(number: int) -> str:
    """The subnet of a node's pods."""
    return f"10.244.{_checked(number)}.0/24"


def _checked(number: int) -> int:
    if not 1 <= number <= MAX_NODES:
        raise ValueError(f"node number {number} is not in 1..{MAX_NODES}")
    return number
