"""Walks :mod:`support.rendezvous_world` breadth-first, and finds the shortest way to whatever is wrong."""

from __future__ import annotations

import collections
import dataclasses
import time
from typing import TYPE_CHECKING

from support import rendezvous_invariants as invariants
from support.rendezvous_world import World

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from support.rendezvous_states import Shape, State


@dataclasses.dataclass(frozen=True)
class Report:
    """What a walk has found."""

    states: int
    transitions: int
    depth: int
    seconds: float
    complete: bool
    broken: str = ""
    trace: tuple[str, ...] = ()
    rounds: int = 0
    """The most rounds that were opened for the faults spent, divided by them (rounded up)."""
    settles: int = 0
    """Fair steps after which a world has settled from any of its states, in whatever order they come."""

    def __str__(self) -> str:
        how = "complete" if self.complete else "stopped"
        end = f"  BROKEN: {self.broken}\n    " + "\n    ".join(self.trace) if self.broken else ""
        return (
            f"{self.states} states, {self.transitions} transitions, depth {self.depth}, {self.seconds:.1f} s, {how}, "
            f"settles within {self.settles} steps, {self.rounds} rounds a fault{end}"
        )


class Explorer:
    """One walk."""

    def __init__(self, shape: Shape) -> None:
        self.world = World(shape)
        self.index: dict[State, int] = {}
        self.states: list[State] = []
        self.parents: list[tuple[int, str]] = []
        self.depths: list[int] = []
        self.fair: list[list[int]] = []
        self.transitions = 0
        self.rounds = 0

    def walk(self, *, most: int = 10**9, seconds: float = 1e9) -> Report:
        """All states, or the first so many."""
        began = time.process_time()
        self._add(self.world.initial(), -1, "")
        at = 0
        while at < len(self.states):
            if len(self.states) > most or time.process_time() - began > seconds:
                return self._report(began, complete=False)
            last = ""
            try:
                steps = []
                for step in self.world.steps(self.states[at]):
                    last = f"{step.who} {step.what}"
                    steps.append(step)
                for step in steps:
                    last = f"{step.who} {step.what}"
                    self._follow(at, step.state, last, fair=step.fair)
            except (invariants.BrokenError, ValueError, IndexError) as error:
                return self._report(began, broken=f"{error!s}", trace=(*self.trace(at), f"(… {last})"))
            at += 1
        return self._settles(began)

    def _follow(self, at: int, state: State, label: str, *, fair: bool) -> None:
        self.transitions += 1
        known = self.index.get(state)
        if known is None:
            known = self._add(state, at, label)
            invariants.check(self.world, state)
        if fair:
            self.fair[at].append(known)

    def _add(self, state: State, parent: int, label: str) -> int:
        place = self.index[state] = len(self.states)
        self.rounds = max(self.rounds, self._rounds(state))
        self.states.append(state)
        self.parents.append((parent, label))
        self.depths.append(self.depths[parent] + 1 if parent >= 0 else 0)
        self.fair.append([])
        return place

    def _rounds(self, state: State) -> int:
        """Rounds beyond the first for each fault spent so far, rounded up."""
        spent = sum(self.world.shape.faults.values()) - sum(state.budget)
        return -(-(state.past.top - 1) // max(1, spent))

    def trace(self, at: int) -> Sequence[str]:
        """The labels from the start to a state."""
        labels = []
        while at > 0:
            at, label = self.parents[at]
            labels.append(label)
        return labels[::-1]

    def _report(self, began: float, *, complete: bool = True, **fields: object) -> Report:
        return Report(
            len(self.states),
            self.transitions,
            max(self.depths),
            time.process_time() - began,
            complete,
            **fields,  # type: ignore[arg-type]
        )

    def _settles(self, began: float) -> Report:
        """Peels the graph of fair steps from the settled states: what stays can go round, or nowhere, for ever."""
        good = [invariants.settled(self.world, state) for state in self.states]
        ahead = [0 if good[i] else len(self.fair[i]) for i in range(len(good))]
        back: list[list[int]] = [[] for _ in good]
        for i, nexts in enumerate(self.fair):
            if not good[i]:
                for j in nexts:
                    back[j].append(i)
        left = [0] * len(good)
        queue = collections.deque(i for i, fine in enumerate(good) if fine)
        while queue:
            i = queue.popleft()
            for j in back[i]:
                left[j] = max(left[j], left[i] + 1)
                ahead[j] -= 1
                if not ahead[j]:
                    queue.append(j)
        stuck = [i for i, n in enumerate(ahead) if n or (not good[i] and not self.fair[i])]
        if stuck:
            i = stuck[0]
            ends = [k for k in stuck if not self.fair[k]]
            i = ends[0] if ends else i
            why = "has no way on" if ends else "may go round for ever"
            return self._report(
                began,
                broken=f"a world {why} ({len(stuck)} states, {len(ends)} ends)",
                trace=(*self.trace(i), *self._round(i, ahead)),
            )
        return self._report(began, settles=max(left), rounds=self.rounds)

    def _round(self, i: int, ahead: list[int]) -> list[str]:
        """The cycle that a world may go round in."""
        way, seen = list[str](), dict[int, int]()
        while i not in seen and self.fair[i]:
            seen[i] = len(way)
            j = next((k for k in self.fair[i] if ahead[k]), None)
            if j is None:
                break
            label = next(f"{s.who} {s.what}" for s in self.world.steps(self.states[i]) if s.state == self.states[j])
            way.append(f"~ {label}")
            i = j
        return [*way, str(self.world.records[self.states[i].record]) if self.states[i].record >= 0 else ""]


FAULTY, FAIR = 150, 3000
"""Steps of a random walk with faults, and without: a settled world takes some hundred."""


def wander(shape: Shape, chance: random.Random) -> Report:
    """One random way: for a while whatever may come next, then without faults until the world has settled."""
    began, world, labels = time.process_time(), World(shape), list[str]()
    at, calm, news = world.initial(), chance.randrange(60), chance.choice((0.1, 0.3, 1.0))
    faulty = calm + chance.randrange(FAULTY)
    broken = ""
    try:
        for turn in range(FAIR):
            if turn > faulty and invariants.settled(world, at):
                break
            every = list(world.steps(at))
            steps = [step for step in every if step.fair or calm < turn < faulty]
            if not steps and turn <= calm:
                steps = every
            if not steps:
                broken = "" if invariants.settled(world, at) else "has no way on"
                break
            weights = [news if " sees " in f" {step.what}" else 1.0 for step in steps]
            (step,) = chance.choices(steps, weights)
            labels.append(f"{step.who} {step.what}")
            at = step.state
            invariants.check(world, at)
        else:
            broken = "does not settle"
    except (invariants.BrokenError, ValueError) as error:
        broken = str(error)
    seconds = time.process_time() - began
    return Report(len(labels), len(labels), len(labels), seconds, complete=False, broken=broken, trace=tuple(labels))
