"""Counts and slots in sentences for people: "1 node", "3 nodes", "nodes 0-2". Knows nothing of what they are about."""

from collections.abc import Collection

from elasticjob_rendezvous.round import slots


def counted(number: int, thing: str) -> str:
    """So many of a *thing*, which is named in the singular."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def nodes(which: Collection[int]) -> str:
    """Nodes by their slots."""
    return f"node{'' if len(which) == 1 else 's'} {slots.dump(which)}"
