"""Part of phase 6: make room on one cluster node for a job that would else be scattered, by moving small ones off it.

A move costs the moved job one change, as measured, in the currency of `surplus.py`: weight x log(throughput) over the
horizon. It is done only where the scattered job gains more than all moved ones lose.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elasticjob_operator.autoscaler import board, drafts, settings

ATTEMPTS = 3
"""Cluster nodes tried, the cheapest first: each try costs a search for every job to be moved."""


@dataclasses.dataclass(slots=True)
class Clearing:
    """Who could be moved: jobs that stay, whole on one cluster node."""

    table: board.Board
    pods: dict[str, board.Pods]
    rules: settings.Settings
    tenants: dict[str, list[drafts.Draft]] = dataclasses.field(default_factory=dict)

    def settle(self, draft: drafts.Draft) -> None:
        """This job has its pods, and may be asked to move."""
        pods = self.pods[draft.job.name]
        if len(pods) == 1 and not draft.job.held:
            self.tenants.setdefault(next(iter(pods)), []).append(draft)

    def clear(self, draft: drafts.Draft, worth: float) -> board.Pods:
        """Room for the whole job on one cluster node, others moved; nothing if that costs more than it is worth."""
        options = sorted(filter(None, (self._option(draft, name) for name in self.tenants)), key=lambda o: o[:2])
        for cost, name, movers in options[:ATTEMPTS]:
            if cost >= worth * draft.weight:
                break
            if self._move(draft, name, movers):
                return {name: draft.nodes}
        return {}

    def _option(self, draft: drafts.Draft, name: str) -> tuple[float, str, list[drafts.Draft]] | None:
        node = self.table.nodes[name]
        need = draft.nodes * draft.job.accelerators
        fits = node.schedulable and node.free >= need and node.kind == draft.kind
        if not fits or (draft.job.candidates is not None and name not in draft.job.candidates):
            return None
        if node.volatile and not self.rules.volatile_minimum:
            return None
        lacking, movers, cost = need - self.table.free[name], [], 0.0
        for tenant in sorted(self.tenants[name], key=lambda t: (self._cost(t), t.job.name)):
            if lacking > 0:
                movers.append(tenant)
                cost += self._cost(tenant)
                lacking -= tenant.nodes * tenant.job.accelerators
        return (cost, name, movers) if lacking <= 0 else None

    def _cost(self, draft: drafts.Draft) -> float:
        return draft.weight * draft.cost(self.rules)

    def _move(self, draft: drafts.Draft, name: str, movers: list[drafts.Draft]) -> bool:
        """All or none: what is undone was only counted."""
        table = self.table
        moved: list[tuple[drafts.Draft, board.Pods]] = []
        for mover in movers:
            table.lift(self.pods[mover.job.name], mover.job.accelerators)
        table.put({name: draft.nodes}, draft.job.accelerators)
        for mover in movers:
            pods = table.fill(table.hosts(mover.job, mover.kind)[0], mover.job.accelerators, mover.nodes, ())
            if list(pods.values()) == [mover.nodes]:
                table.put(pods, mover.job.accelerators)
                moved.append((mover, pods))
        table.lift({name: draft.nodes}, draft.job.accelerators)
        if len(moved) < len(movers):
            for mover, pods in moved:
                table.lift(pods, mover.job.accelerators)
            for mover in movers:
                table.put(self.pods[mover.job.name], mover.job.accelerators)
            return False
        for mover, pods in moved:
            self.tenants[name].remove(mover)
            self.pods[mover.job.name] = pods
            self.settle(mover)
        return True
