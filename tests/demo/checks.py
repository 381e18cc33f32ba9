"""What each step of the story promises, as plain functions of what was seen. Pure; each raises `UnexpectedError`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from elasticjob_rendezvous.round.record import Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from demo.rounds import Round

ACCURACY = 0.95
"""Of the held-out images, told right at the end."""

WATCH_SKEW = 2.0
"""Seconds by which two watches may tell of one moment apart, on a busy machine."""


class UnexpectedError(AssertionError):
    """Something was not as it must be: what it was about, what was expected, what was seen."""

    def __init__(self, what: str, *, expected: object, seen: object) -> None:
        super().__init__(f"{what}: expected {_text(expected)}, saw {_text(seen)}")


def equal(what: str, *, expected: object, seen: object) -> None:
    if expected != seen:
        raise UnexpectedError(what, expected=expected, seen=seen)


def one_of(what: str, *, expected: Collection[object], seen: object) -> None:
    if seen not in expected:
        raise UnexpectedError(what, expected=" or ".join(map(_text, expected)), seen=seen)


def at_least(what: str, *, expected: float, seen: float) -> None:
    if seen < expected:
        raise UnexpectedError(what, expected=f"at least {expected:g}", seen=seen)


def started(first: Round) -> None:
    """The first round is the two nodes that the manifest asks for."""
    equal("number of the first round", expected=1, seen=first.number)
    equal("reason of the first round", expected=Reason.STARTED, seen=first.reason)
    equal("slots of the first round", expected={0, 1}, seen=set(first.slots))
    equal("first training step", expected=1, seen=first.first_step)


def grown(before: Round, after: Round) -> None:
    """One new round takes the newcomer in; until it waited, training went on; nothing started from the beginning."""
    equal("rounds that a resize takes", expected=1, seen=after.number - before.number)
    one_of("reason of the round", expected=(Reason.RESIZED, Reason.NODE_JOINED), seen=after.reason)
    equal("slots of the round", expected={0, 1, 2}, seen=set(after.slots))
    equal("ranks of the members that stay", expected=before.members, seen=after.members[: before.size])
    parked = after.arrived.get(2, after.opened)
    at_least(
        "seconds by which the newcomer waited before the round opened", expected=-WATCH_SKEW, seen=after.opened - parked
    )
    resumed(before, after)


def resumed(before: Round, after: Round) -> None:
    """The round goes on from a checkpoint; one that the round before has written, if it came that far."""
    at_least(f"step at which round {after.number} resumed", expected=max(before.first_step, 2), seen=after.first_step)


def reformed(before: Round, after: Round, *, lost: str) -> None:
    """The others go on without the process that was lost, in the very next round."""
    equal("rounds that the loss of a pod takes", expected=1, seen=after.number - before.number)
    # Who notices first is a race: the operator, the lost pod itself in its last moments, the others' agents or workers.
    reasons = (Reason.POD_LOST, Reason.AGENT_LEFT, Reason.PEER_SILENT, Reason.WORKERS_FAILED)
    one_of("reason of the round", expected=reasons, seen=after.reason)
    survivors = tuple(member.slot for member in before.members if member.nonce != lost)
    equal("members of the round, by slot", expected=survivors, seen=tuple(member.slot for member in after.members))
    resumed(before, after)


def replaced(before: Round, after: Round, *, lost: str) -> None:
    """A fresh process holds the slot of the one that was lost."""
    equal("slots of the round", expected={0, 1, 2}, seen=set(after.slots))
    one_of("reason of the round", expected=(Reason.NODE_JOINED, Reason.RESIZED, Reason.POD_LOST), seen=after.reason)
    equal("the lost process is a member", expected=False, seen=lost in {member.nonce for member in after.members})
    resumed(before, after)


def undisturbed(before: Round, after: Round, pods_before: Mapping[str, str], pods_after: Mapping[str, str]) -> None:
    """Nothing happened to the job: the same round, the same pods, more steps."""
    equal("number of the round", expected=before.number, seen=after.number)
    equal("members of the round", expected=before.members, seen=after.members)
    equal("pods, by UID", expected=dict(pods_before), seen=dict(pods_after))


def shrunk(before: Round, after: Round) -> None:
    equal("rounds that a resize takes", expected=1, seen=after.number - before.number)
    equal("reason of the round", expected=Reason.RESIZED, seen=after.reason)
    equal("nodes of the round", expected=1, seen=after.size)
    equal("the node that stays is the former rank 0", expected=before.members[:1], seen=after.members)
    resumed(before, after)


def exited_well(exit_codes: Mapping[str, int], pods: Collection[str]) -> None:
    """Pods that a resize ends, and those that finish, end with success."""
    equal("exit codes", expected=dict.fromkeys(pods, 0), seen={pod: exit_codes.get(pod) for pod in pods})


def result_of(log: str) -> dict[str, Any]:
    """What the script says of itself at the end of its *log*."""
    lines = [line for line in log.splitlines() if "result: {" in line]
    if not lines:
        raise UnexpectedError("the script's last words", expected="a line with its result", seen=log[-500:])
    found: dict[str, Any] = json.loads(lines[-1].partition("result: ")[2])
    return found


def learned(result: Mapping[str, Any]) -> None:
    """It tells digits apart, and each image was trained once in each epoch, whatever happened in between."""
    at_least("held-out accuracy", expected=ACCURACY, seen=result["accuracy"])
    books = [{"epoch": n, "samples": result["images"], "least": 1, "most": 1} for n in range(len(result["epochs"]))]
    for expected, seen in zip(books, result["epochs"], strict=True):
        equal("samples trained in an epoch", expected=expected, seen=seen)
    equal("samples trained in all", expected=len(books) * result["images"], seen=result["samples"])


def _text(value: object) -> str:
    if isinstance(value, Reason):
        return value.value
    return value if isinstance(value, str) else repr(value)
