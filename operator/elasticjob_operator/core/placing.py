"""Where a pod may not be scheduled, in the words of its ``affinity``."""

from collections.abc import Iterable


def ruled_out(found: object, names: Iterable[str]) -> dict[str, object]:
    """A pod's ``affinity`` with these cluster nodes ruled out: in each alternative that the user has named."""
    whole = dict(found) if isinstance(found, dict) else {}
    node = dict(whole.get("nodeAffinity") or {})
    required = dict(node.get("requiredDuringSchedulingIgnoredDuringExecution") or {})
    ruled_out = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in names]
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), *ruled_out]} for term in terms
    ]
    node["requiredDuringSchedulingIgnoredDuringExecution"] = required
    return {**whole, "nodeAffinity": node}
