"""Where a pod may not be scheduled, and where it had better be, in the words of its ``affinity``."""

from collections.abc import Iterable, Mapping
from typing import Any

from elasticjob_operator.api import spot

MOST_WEIGHT = 100
"""Of a preference, in Kubernetes' own scale."""


def ruled_out(found: object, names: Iterable[str]) -> object:
    """A pod's ``affinity`` with these cluster nodes ruled out."""
    return _required(found, "matchFields", [_not_in("metadata.name", name) for name in names])


def _required(found: object, where: str, these: Iterable[object]) -> object:
    """A pod's ``affinity`` with these requirements in each alternative that the user has named.

    What is none is left as it is, for the API server names the mistake.
    """
    try:
        return _with(found or {}, where, these)
    except (AttributeError, TypeError, ValueError):
        return found


def _with(found: Any, where: str, these: Iterable[object]) -> dict[str, object]:
    whole = dict(found)
    node = dict(whole.get("nodeAffinity") or {})
    required = dict(node.get("requiredDuringSchedulingIgnoredDuringExecution") or {})
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [{**term, where: [*(term.get(where) or ()), *these]} for term in terms]
    node["requiredDuringSchedulingIgnoredDuringExecution"] = required
    return {**whole, "nodeAffinity": node}


def together(found: object, labels: Mapping[str, str], domains: Iterable[str]) -> object:
    """A pod's ``affinity``, where it has none, with a preference for where the pods with these *labels* are already.

    *domains* are labels of cluster nodes, that of the narrowest domain first, which is wanted most.
    """
    wishes = [
        {
            "weight": MOST_WEIGHT >> place,
            "podAffinityTerm": {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": domain},
        }
        for place, domain in enumerate(domains)
    ]
    return (
        found if found or not wishes else {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}
    )


def _not_in(key: str, value: str) -> dict[str, object]:
    return {"key": key, "operator": "NotIn", "values": [value]}


def firm(found: object) -> object:
    """A pod's ``affinity`` that leaves it only cluster nodes that stay."""
    return _required(found, "matchExpressions", [_not_in(*label) for label in spot.LABELS.items()])


def steady(found: object) -> object:
    """A pod's ``affinity`` with a preference for cluster nodes that stay, unless it tells of cluster nodes itself.

    What is none is left as it is, for the API server names the mistake.
    """
    whole = {} if found is None else found
    if not isinstance(whole, dict):
        return whole
    stays = [_not_in(*label) for label in spot.LABELS.items()]
    wish = {"weight": MOST_WEIGHT, "preference": {"matchExpressions": stays}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}, **whole}
