"""NetworkPolicies that hold: kube-router's controller on a node, for as long as a test asks for it.

It works with iptables, which nothing else on a machine does: kube-proxy has a table of its own in nftables.
"""

from pathlib import Path

from cluster import nodes, tools

PROGRAM = "policies"


def start(node: nodes.Node, kubeconfig: Path) -> None:
    """Enforce them on what comes to the node's pods, from pods of the same node too; they hold a moment later."""
    node.machine.shell("echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables")
    node.machine.start(tools.path(PROGRAM), kubeconfig, node.name)


def stop(node: nodes.Node) -> None:
    """Enforce them no more."""
    node.machine.stop(PROGRAM)
    node.machine.shell("iptables --flush; iptables --delete-chain")
