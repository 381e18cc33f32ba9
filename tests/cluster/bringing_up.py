"""Bringing a cluster up, step by step: control plane first, then all nodes side by side.

Each step ends when what it started answers, or fails with the log of what died.
"""

from collections.abc import Iterable
from concurrent import futures

from cluster import containerd, control_plane, errors, kubeconfigs, machines, nodes, parts, pki, waiting, wiring
from cluster.images import stocks

READY_SECONDS = 60
NODE_SECONDS = 60


def start_control_plane(site: parts.Parts) -> None:
    """Start the control plane's machine and wait until its API server is ready."""
    site.authority.create()
    admin = site.authority.issue("admin", pki.ADMIN)
    kubeconfigs.write(
        site.folder.kubeconfig, name=site.folder.name, url=site.own.api_url, authority=site.authority, pair=admin
    )
    control = site.control
    control.machine.boot()
    wiring.build_bridge(control.machine, site.own)
    control.prepare(site.folder.name)
    for component in control_plane.SERVERS:
        control.machine.start(*control.command(component))
    await_api(site)
    for component in control_plane.CONTROLLERS:
        control.machine.start(*control.command(component))


def await_api(site: parts.Parts) -> None:
    """Wait until the API server says that it is ready."""
    machine = site.control.machine
    waiting.until(
        "the API server", site.api.ready, seconds=READY_SECONDS, check=lambda: _alive(machine, control_plane.SERVERS)
    )


def start_names(site: parts.Parts) -> None:
    """Start the name server for pods, and wait until it knows the names."""
    machine, name = site.control.machine, control_plane.NAMES
    machine.start(*site.control.command(name))
    waiting.until(
        "the name server",
        lambda: "answering" in (machine.logs / name).read_text(),
        seconds=READY_SECONDS,
        check=lambda: machine.require(name),
    )


def start_nodes(site: parts.Parts, names: Iterable[str], *, gpus: int) -> None:
    """Start nodes side by side, each with the cluster's images, and return when all are Ready."""
    chosen = [site.node(name) for name in names]
    with futures.ThreadPoolExecutor(max_workers=max(len(chosen), 1)) as pool:
        for done in [pool.submit(_start_node, site, node, gpus) for node in chosen]:
            done.result()


def _start_node(site: parts.Parts, node: nodes.Node, gpus: int) -> None:
    node.machine.home.mkdir(parents=True, exist_ok=True)
    node.prepare()
    stocks.hand_out(site.folder.stock.readlink(), node.images)
    reboot_node(site, node, gpus=gpus)


def reboot_node(site: parts.Parts, node: nodes.Node, *, gpus: int) -> None:
    """Switch on the machine of a node whose files are there, and wait until Kubernetes counts on it."""
    before = site.api.node_renewed(node.name)
    node.machine.boot()
    wiring.connect(site.control.machine, node.machine, site.own)
    start_components(node)
    await_node(site, node, since=before)
    pretend_gpus(site, node, gpus)


def start_components(node: nodes.Node) -> None:
    """Start what makes a machine a node; the kubelet gives up at once if nobody listens for it."""
    containerd.start(node.machine, node.machine.home / "containerd.toml")
    for component in ("kubelet", "kube-proxy"):
        node.machine.start(*node.command(component))


def await_node(site: parts.Parts, node: nodes.Node, *, since: str) -> None:
    """Wait until a node is Ready and has said so anew: it has been heard of after `since`."""
    waiting.until(
        f"{node.name} to be Ready",
        lambda: site.api.node_renewed(node.name) != since and site.api.node_ready(node.name),
        seconds=NODE_SECONDS,
        interval=0.2,
        check=lambda: keep_up(node),
    )


def keep_up(node: nodes.Node) -> None:
    """Fail if a component has died; a kubelet that came before containerd was ready is started again, as by systemd."""
    try:
        node.machine.require("kubelet")
    except errors.ClusterError as death:
        if containerd.NOT_YET not in str(death):
            raise
        node.machine.start(*node.command("kubelet"))
    _alive(node.machine, nodes.COMPONENTS)


def pretend_gpus(site: parts.Parts, node: nodes.Node, count: int) -> None:
    """Make a node claim GPUs that it does not have; the kubelet keeps what it is told, as the API's docs promise."""
    claim = {"nvidia.com/gpu": str(count)}
    if count:
        site.api.patch(f"/api/v1/nodes/{node.name}/status", {"status": {"capacity": claim, "allocatable": claim}})


def _alive(machine: machines.Machine, components: Iterable[str]) -> None:
    for component in components:
        machine.require(component)
