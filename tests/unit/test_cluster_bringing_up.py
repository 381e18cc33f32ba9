"""What is done about components that end while a cluster node starts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from cluster import bringing_up, containerd, errors

if TYPE_CHECKING:
    from cluster import nodes


class Machine:
    """Its kubelet ends with these last words, unless it is started again."""

    def __init__(self, words: str) -> None:
        self.words = words
        self.started: list[str] = []

    def require(self, component: str) -> None:
        if component == "kubelet" and not self.started:
            raise errors.ClusterError(f"kubelet has died: {self.words}")

    def start(self, *command: str) -> None:
        self.started.append(command[0])


def node(machine: Machine) -> nodes.Node:
    return cast("nodes.Node", SimpleNamespace(machine=machine, command=lambda component: [component]))


def test_a_kubelet_that_came_before_containerd_was_ready_is_started_again() -> None:
    machine = Machine(f"rpc error: {containerd.NOT_YET}")
    bringing_up.keep_up(node(machine))
    assert machine.started == ["kubelet"]


def test_a_kubelet_that_has_died_of_something_else_is_told() -> None:
    machine = Machine("no such flag")
    with pytest.raises(errors.ClusterError, match="no such flag"):
        bringing_up.keep_up(node(machine))
    assert machine.started == []
