"""Scenarios 1-15: forming a round. Nodes are processes with a handler each, the API server is the fake one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.rendezvous_nodes import called, meet, met, rendezvous

if TYPE_CHECKING:
    from support.rendezvous_nodes import Nodes


def test_late_nodes_are_taken_in(nodes: Nodes) -> None:
    early = nodes.several([None] * 2, planned=False, nnodes="2:4")
    meet(*early)
    late = nodes.several([None] * 2, planned=False, nnodes="2:4")
    for node in late:
        node.begin(rendezvous)
    called(*early)
    for node in early:
        node.begin(rendezvous)
    assert met(*early, *late)[0].number == 2
