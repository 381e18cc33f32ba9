"""Which cluster nodes a job's template lets its pods run on: node selector, required node affinity, tolerations.

The scheduler's own rules (preferences, affinity between pods, CPUs, memory, volumes) are not repeated here: what they
keep from starting shows as pods that stay unschedulable.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elasticjob_operator.autoscaler.seeing import objects

NAME_FIELD = "metadata.name"
"""The only field that node affinity may name."""


@dataclasses.dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a term."""

    key: str
    operator: str
    values: tuple[str, ...]
    field: bool = False
    """Of a field of the cluster node, not of a label."""


@dataclasses.dataclass(frozen=True, slots=True)
class Toleration:
    """Which taints do not keep the pods away; an empty key stands for all, an empty effect too."""

    key: str
    exists: bool
    value: str
    effect: str


@dataclasses.dataclass(frozen=True, slots=True)
class Wishes:
    """What a template asks of a cluster node. Hashable: jobs with the same wishes share one answer."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] | None = None
    """Any of them; None: no affinity. An empty term matches nothing, as in Kubernetes."""
    tolerations: tuple[Toleration, ...] = ()

    def allow(self, node: objects.Node) -> bool:
        """Whether its pods may run there, room or not."""
        return (
            all(node.labels.get(key) == value for key, value in self.selector)
            and (self.terms is None or any(term and all(_holds(r, node) for r in term) for term in self.terms))
            and all(any(_tolerates(t, taint) for t in self.tolerations) for taint in node.taints)
        )


def wishes(spec: Mapping[str, Any]) -> Wishes:
    """Those of a PodSpec.

    Raises:
        AttributeError, TypeError, KeyError, ValueError: it is none that the API server would take.
    """
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return Wishes(
        selector=tuple(sorted((str(k), str(v)) for k, v in (spec.get("nodeSelector") or {}).items())),
        terms=None if required is None else tuple(_term(term) for term in required["nodeSelectorTerms"]),
        tolerations=tuple(_toleration(t) for t in spec.get("tolerations") or ()),
    )


def _term(data: Mapping[str, Any]) -> tuple[Requirement, ...]:
    labels = (_requirement(r, field=False) for r in data.get("matchExpressions") or ())
    fields = (_requirement(r, field=True) for r in data.get("matchFields") or ())
    return (*labels, *fields)


def _requirement(data: Mapping[str, Any], *, field: bool) -> Requirement:
    return Requirement(data["key"], data["operator"], tuple(map(str, data.get("values") or ())), field)


def _toleration(data: Mapping[str, Any]) -> Toleration:
    exists = data.get("operator") == "Exists"
    return Toleration(data.get("key") or "", exists, data.get("value") or "", data.get("effect") or "")


def _holds(wanted: Requirement, node: objects.Node) -> bool:
    found = (node.name if wanted.key == NAME_FIELD else None) if wanted.field else node.labels.get(wanted.key)
    match wanted.operator:
        case "In":
            return found in wanted.values
        case "NotIn":
            return found not in wanted.values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt":
            return _compares(found, wanted)
    return False


def _compares(found: str | None, wanted: Requirement) -> bool:
    try:
        number, bound = int(found or ""), int(wanted.values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if wanted.operator == "Gt" else number < bound


def _tolerates(toleration: Toleration, taint: objects.Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.exists or (toleration.key == taint.key and toleration.value == taint.value)
