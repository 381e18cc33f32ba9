"""Where a pod may not be scheduled, and where it had better be, in the words of its ``affinity``."""

from collections.abc import Iterable, Mapping
from typing import Any

from elasticjob_operator.api import spot

MOST_WEIGHT = 100
"""Of a preference, in Kubernetes' own scale."""


def ruled_out(found: object, names: Iterable[str]) -> object:
    """A pod's ``affinity`` with these cluster nodes ruled out: in each alternative that the user has named.

    What is none is left as it is, for the API server names the mistake.
    """
    try:
        return _ruled_out(found or {}, names)
    except (AttributeError, TypeError, ValueError):
        return found


def _ruled_out(found: Any, names: Iterable[str]) -> dict[str, object]:
    whole = dict(found)
    node = dict(whole.get("nodeAffinity") or {})
    required = dict(node.get("requiredDuringSchedulingIgnoredDuringExecution") or {})
    ruled_out = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in names]
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), *ruled_out]} for term in terms
    ]
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


def steady(found: object) -> object:
    """A pod's ``affinity`` with a preference for cluster nodes that stay, unless it tells of cluster nodes itself.

    What is none is left as it is, for the API server names the mistake.
    """
    whole = {} if found is None else found
    if not isinstance(whole, dict):
        return whole
    stays = [{"key": key, "operator": "NotIn", "values": [value]} for key, value in spot.LABELS.items()]
    wish = {"weight": MOST_WEIGHT, "preference": {"matchExpressions": stays}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}, **whole}
