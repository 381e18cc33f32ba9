"""What a user asks for, as a frozen value.

The API server has checked it already (``crds/elasticjobs.yaml``); it is parsed here all the same, because an older CRD
may still be installed, and what can't be read must end as one clear line and not as a crash.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any


class SpecError(ValueError):
    """A spec that can't be read; the message names the field."""


@dataclasses.dataclass(frozen=True)
class Spec:
    """``spec`` of an ElasticJob with its defaults."""

    min_nodes: int
    max_nodes: int
    nodes: int | None
    nproc_per_node: str
    max_failures: int
    checkpoint_grace: int
    newcomer_timeout: int
    template: Mapping[str, Any]

    @property
    def wanted(self) -> int:
        """How many nodes the job is brought to: while there is no autoscaler, the most that it may have."""
        return self.max_nodes if self.nodes is None else self.nodes


def parse(data: Mapping[str, Any]) -> Spec:
    """The value of ``spec``.

    Raises:
        SpecError: a field is missing, of the wrong kind or out of its range.
    """
    failures, resizes = _part(data, "failurePolicy"), _part(data, "resizePolicy")
    spec = Spec(
        min_nodes=_number(data, "minNodes", 1),
        max_nodes=_number(data, "maxNodes", None),
        nodes=None if data.get("nodes") is None else _number(data, "nodes", None),
        nproc_per_node=str(data.get("nprocPerNode", 1)),
        max_failures=_number(failures, "maxFailures", 10, least=0),
        checkpoint_grace=_number(resizes, "checkpointGraceSeconds", 30, least=0),
        newcomer_timeout=_number(resizes, "newcomerTimeoutSeconds", 300),
        template=_template(data),
    )
    if not spec.min_nodes <= spec.wanted <= spec.max_nodes:
        raise SpecError("spec.nodes must be from spec.minNodes to spec.maxNodes")
    return spec


def _part(data: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = data.get(field) or {}
    if not isinstance(value, Mapping):
        raise SpecError(f"spec.{field} must be an object")
    return value


def _number(data: Mapping[str, Any], field: str, default: int | None, *, least: int = 1) -> int:
    value = data.get(field, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SpecError(f"spec.{field} must be a whole number from {least}, not {value!r}")
    return value


def _template(data: Mapping[str, Any]) -> Mapping[str, Any]:
    template = _part(data, "template")
    pod = template.get("spec")
    containers = pod.get("containers") if isinstance(pod, Mapping) else None
    if not isinstance(containers, list) or not containers or not all(isinstance(c, Mapping) for c in containers):
        raise SpecError("spec.template.spec.containers must have a container")
    return template
