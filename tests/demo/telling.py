"""How the story looks on a terminal: headings, what happens as it happens, durations, and the table of rounds.

Plain text; colour only where the output is a terminal. Knows nothing of what is right or wrong.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO

from demo.watching import exit_code

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demo.api import Object
    from demo.rounds import Round
    from demo.watching import View
    from elasticjob_rendezvous.round.record import Member

QUIET_SECONDS = 5.0
"""After so long without a line, one says what is being waited for."""

BOLD, DIM, GREEN, RED = "1", "2", "32", "31"

WHY = {
    "Started": "the job's first round",
    "Resized": "its size was changed",
    "NodeJoined": "a new node waited to join",
    "PodLost": "a pod was lost",
    "WorkersFailed": "workers failed",
    "PeerSilent": "a node fell silent",
    "AgentRestarted": "an agent was restarted",
    "AgentLeft": "a node left",
    "StateLost": "the round record was lost",
    "Suspended": "no nodes are wanted",
    "Resumed": "the job was suspended, and goes on",
}


class Teller:
    """Prints lines, each with the seconds since its step began."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._colour = self._out.isatty() and "NO_COLOR" not in os.environ
        self._began = self._last = time.monotonic()
        self._lock = threading.Lock()  # the watches' threads tell as well

    def line(self, text: str, *, style: str = "", at: float | None = None) -> None:
        now = time.monotonic()
        shown = f"\033[{style}m{text}\033[0m" if style and self._colour else text
        with self._lock:
            self._last = now
            print(f"  {(at or now) - self._began:6.1f} s  {shown}", file=self._out, flush=True)

    def plain(self, text: str = "", *, style: str = "") -> None:
        shown = f"\033[{style}m{text}\033[0m" if style and self._colour else text
        with self._lock:
            print(shown, file=self._out, flush=True)

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[None]:
        """A heading before, how long it took after. A failure is the caller's to tell."""
        self.plain(f"\n{title}", style=BOLD)
        self._began = self._last = time.monotonic()
        yield
        self.line("✓ done", style=GREEN)

    def waiting(self, what: str, seconds: float) -> None:
        if time.monotonic() - self._last >= QUIET_SECONDS:
            self.line(f"… waiting for {what} ({seconds:.0f} s)", style=DIM)

    def rounds(self, rounds: Sequence[Round]) -> None:
        """The table of every round."""
        rows = [("round", "nodes", "slots", "came", "went", "why", "first step", "after")]
        before: tuple[Member, ...] = ()
        for one in rounds:
            came, went = _others(one.members, before), _others(before, one.members) if one.members else "-"
            before = one.members or before
            slots = ",".join(str(member.slot) for member in one.members)
            seconds = one.seconds_to_train
            rows.append(
                (
                    str(one.number),
                    str(one.size or "-"),
                    slots or "-",
                    came,
                    went,
                    f"{one.reason.value}: {WHY[one.reason.value]}",
                    str(one.first_step or "-"),
                    "-" if seconds is None else f"{seconds:.1f} s",
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for number, row in enumerate(rows):
            cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.plain(f"  {cells}".rstrip(), style="" if number else BOLD)


def _others(these: tuple[Member, ...], those: tuple[Member, ...]) -> str:
    """Slots of processes that are not among *those*: a pod's successor in its slot is another process."""
    return ",".join(str(member.slot) for member in these if member not in those) or "-"


class Reporter:
    """Tells what happens to pods and rounds, each thing once. A listener of the watch."""

    def __init__(self, teller: Teller, view: View) -> None:
        self._teller = teller
        self._view = view
        self._told: set[tuple[object, ...]] = set()
        self._created: dict[str, float] = {}
        self._first: dict[str, str] = {}
        """The first pod of each name, by its UID: one that takes its place may have the name too."""
        view.listeners.append(self)
        view.impatient = teller.waiting

    def __call__(self, kind: str, event: str, one: Object, at: float) -> None:
        if kind == "pods":
            self._pod(one, at, deleted=event == "DELETED")
        if kind in ("configmaps", "leases"):
            for round_ in self._view.history.rounds[-2:]:
                self._round(round_)

    def _once(self, *key: object, text: str, at: float, style: str = "") -> None:
        if key not in self._told:
            self._told.add(key)
            self._teller.line(text, at=at, style=style)

    def _pod(self, pod: Object, at: float, *, deleted: bool) -> None:
        name, uid, phase = pod["metadata"]["name"], pod["metadata"]["uid"], pod.get("status", {}).get("phase")
        created = self._created.setdefault(uid, at)
        again = self._first.setdefault(name, uid) != uid
        self._once(uid, "created", text=f"{'another' if again else 'the'} pod {name} is created", at=at)
        if phase == "Running":
            self._once(uid, "running", text=f"pod {name} runs, {at - created:.1f} s later", at=at)
        code = exit_code(pod)
        if code is not None:
            self._once(uid, "ended", text=f"pod {name} has ended with exit code {code}", at=at)
        if deleted:
            self._once(uid, "deleted", text=f"pod {name} is gone", at=at)

    def _round(self, one: Round) -> None:
        number = one.number
        why = f"{one.reason.value}: {WHY[one.reason.value]}"
        self._once(number, "opened", text=f"round {number} is opened ({why})", at=one.opened)
        if one.sealed is not None:
            slots = ", ".join(str(member.slot) for member in one.members)
            self._once(number, "sealed", text=f"round {number} is sealed, in rank order: slots {slots}", at=one.sealed)
        if one.trained is not None:
            text = f"round {number} trains: step {one.first_step}, {one.seconds_to_train:.1f} s after it was opened"
            self._once(number, "trained", text=text, at=one.trained)
        if one.last_step > one.first_step:
            loss = "unknown" if one.loss is None else f"{one.loss:.3f}"
            text = f"step {one.last_step} on {one.size} node{'s' * (one.size > 1)}, loss {loss}"
            self._once(number, one.last_step, text=text, at=time.monotonic(), style=DIM)
