"""The cables: one bridge in the control plane's machine, one link to it from each node and one from the host.

The host gets a single link and nothing else; it goes away with the control plane's machine. Pulling a node's cable cuts
it off from everybody, and leaves the node itself running.
"""

import contextlib
import json

from cluster import addresses, errors, machines, running, waiting

BRIDGE = "cluster0"
LINK_SECONDS = 10


def build_bridge(control: machines.Machine, own: addresses.Addresses) -> None:
    """Set up the control plane's end, the gateway of all nodes, and connect the host."""
    _batch(
        control,
        # Left to itself, a bridge takes the lowest address of its ports: when one comes or goes, nobody finds it.
        f"link add {BRIDGE} address {own.link_address(1)} type bridge",
        f"addr add {own.control_plane}/24 dev {BRIDGE}",
        f"link set {BRIDGE} up",
        *(_pod_route(own, number) for number in range(1, addresses.MAX_NODES + 1)),
    )
    control.shell("echo 1 > /proc/sys/net/ipv4/ip_forward")
    remove_host_link(own)
    running.run("ip", "link", "add", own.host_link, "type", "veth", "peer", "name", "host", "netns", str(control.pid()))
    running.run("ip", "addr", "add", f"{own.host}/24", "dev", own.host_link)
    running.run("ip", "link", "set", own.host_link, "up")
    _batch(control, f"link set host master {BRIDGE} up")


def connect(control: machines.Machine, node: machines.Machine, own: addresses.Addresses) -> None:
    """Wire a booted node to the bridge, with a route to every other node's pods."""
    number = addresses.node_number(node.name)
    # The same address each time: for half a minute the others still send to the one that the machine had before.
    peer = ("peer", "name", "eth0", "address", own.link_address(10 + number), "netns", str(node.pid()))
    control.network("ip", "link", "add", node.name, "type", "veth", *peer)
    _batch(control, f"link set {node.name} master {BRIDGE} up")
    others = (other for other in range(1, addresses.MAX_NODES + 1) if other != number)
    _batch(
        node,
        f"addr add {own.node(number)}/24 dev eth0",
        "link set eth0 up",
        f"route add default via {own.control_plane}",
        *(_pod_route(own, other) for other in others),
    )
    node.shell("echo 1 > /proc/sys/net/ipv4/ip_forward")


def set_cable(control: machines.Machine, node: str, *, plugged: bool) -> None:
    """Pull a node's cable, or plug it in again."""
    control.network("ip", "link", "set", node, "up" if plugged else "down")


def remove_host_link(own: addresses.Addresses) -> None:
    """Remove the host's link, if one is left; the kernel removes it too, some time after the machine's end."""

    def gone() -> bool:
        links = json.loads(running.run("ip", "-json", "link", "show", "type", "veth"))
        if not any(link.get("ifname") == own.host_link for link in links):
            return True
        with contextlib.suppress(errors.ClusterError):  # gone meanwhile
            running.run("ip", "link", "delete", own.host_link)
        return False

    waiting.until(f"link {own.host_link} to be gone", gone, seconds=LINK_SECONDS)


def _pod_route(own: addresses.Addresses, number: int) -> str:
    return f"route add {addresses.pod_subnet(number)} via {own.node(number)}"


def _batch(machine: machines.Machine, *lines: str) -> None:
    machine.network("ip", "-batch", "-", input="\n".join(lines))
