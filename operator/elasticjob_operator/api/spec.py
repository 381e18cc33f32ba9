"""What a user asks for, as a frozen value.

The API server has checked it already (``crds/elasticjobs.yaml``); it is parsed here all the same, because an older CRD
may still be installed, and what can't be read must end as one clear line and not as a crash.
"""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from elasticjob_operator.api.failures import ExitCodes, FailureClass, FailurePolicy
from elasticjob_operator.api.rendezvous import ETCD_BACKENDS, Backend, Rendezvous


class CleanPods(str, enum.Enum):
    """Which pods are deleted when the job is over; the words are those of Kubeflow's jobs."""

    NONE = "None"
    RUNNING = "Running"
    ALL = "All"


class SpecError(ValueError):
    """A spec that can't be read; the message names the field."""


@dataclasses.dataclass(frozen=True)
class Spec:
    """``spec`` of an ElasticJob with its defaults."""

    min_nodes: int
    max_nodes: int
    nodes: int | None
    allowed_nodes: tuple[int, ...]
    """The sizes that the job may have, ascending."""
    nproc_per_node: str
    failure_policy: FailurePolicy
    checkpoint_grace: int
    newcomer_timeout: int
    cooldown: int
    active_deadline: int | None
    startup_deadline: int | None
    ttl: int | None
    clean_pods: CleanPods
    suspend: bool
    template: Mapping[str, Any]
    queue: str = ""
    rendezvous: Rendezvous = dataclasses.field(default_factory=Rendezvous)

    @property
    def sizes(self) -> frozenset[int]:
        """The sizes that are allowed, where not every one from the least to the most is."""
        every = len(self.allowed_nodes) == self.max_nodes - self.min_nodes + 1
        return frozenset() if every else frozenset(self.allowed_nodes)


def parse(data: Mapping[str, Any]) -> Spec:
    """The value of ``spec``.

    Raises:
        SpecError: a field is missing, of the wrong kind or out of its range.
    """
    resizes = _part(data, "resizePolicy")
    least, most = _number(data, "minNodes", 1), _number(data, "maxNodes", None)
    spec = Spec(
        min_nodes=least,
        max_nodes=most,
        allowed_nodes=_allowed_nodes(_part(data, "allowedNodes"), least, most),
        nodes=_optional(data, "nodes"),
        nproc_per_node=str(data.get("nprocPerNode", 1)),
        failure_policy=_failure_policy(_part(data, "failurePolicy")),
        checkpoint_grace=_number(resizes, "checkpointGraceSeconds", 30, least=0),
        newcomer_timeout=_number(resizes, "newcomerTimeoutSeconds", 300),
        cooldown=_number(resizes, "cooldownSeconds", 0, least=0),
        active_deadline=_optional(data, "activeDeadlineSeconds"),
        startup_deadline=_optional(data, "startupDeadlineSeconds"),
        ttl=_optional(data, "ttlSecondsAfterFinished", least=0),
        clean_pods=_clean_pods(data),
        suspend=data.get("suspend") is True,
        template=_template(data),
        queue=str(data.get("queue") or ""),
        rendezvous=_rendezvous(_part(data, "rendezvous")),
    )
    if spec.nodes is not None and not spec.min_nodes <= spec.nodes <= spec.max_nodes:
        raise SpecError("spec.nodes must be from spec.minNodes to spec.maxNodes")
    return spec


def _part(data: Mapping[str, Any], field: str, where: str = "spec") -> Mapping[str, Any]:
    value = data.get(field) or {}
    if not isinstance(value, Mapping):
        raise SpecError(f"{where}.{field} must be an object")
    return value


def _number(data: Mapping[str, Any], field: str, default: int | None, *, least: int = 1) -> int:
    value = data.get(field, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SpecError(f"spec.{field} must be a whole number from {least}, not {value!r}")
    return value


def _optional(data: Mapping[str, Any], field: str, *, least: int = 1) -> int | None:
    return None if data.get(field) is None else _number(data, field, None, least=least)


def _allowed_nodes(data: Mapping[str, Any], least: int, most: int) -> tuple[int, ...]:
    """Every size from *least* to *most* that is named, a multiple of the step, or not ruled out at all."""
    if least > most:
        raise SpecError("spec.minNodes must not be greater than spec.maxNodes")
    step, sizes = _optional(data, "step"), data.get("sizes")
    if sizes is not None and not (isinstance(sizes, list) and all(isinstance(size, int) for size in sizes)):
        raise SpecError(f"spec.allowedNodes.sizes must be a list of numbers, not {sizes!r}")
    found = [n for n in range(least, most + 1) if n % (step or 1) == 0 and (sizes is None or n in sizes)]
    if not found:
        raise SpecError("spec.allowedNodes must allow a number from spec.minNodes to spec.maxNodes")
    return tuple(found)


def _clean_pods(data: Mapping[str, Any]) -> CleanPods:
    try:
        return CleanPods(data.get("cleanPodPolicy", CleanPods.RUNNING.value))
    except ValueError as error:
        raise SpecError("spec.cleanPodPolicy must be None, Running or All") from error


def _failure_policy(data: Mapping[str, Any]) -> FailurePolicy:
    return FailurePolicy(
        max_failures=_number(data, "maxFailures", 10, least=0),
        max_infrastructure=_number(data, "maxInfrastructureFailures", 100, least=0),
        max_disruptions=_optional(data, "maxDisruptions", least=0),
        refill_steps=_number(data, "refillSteps", 100, least=0),
        progress_deadline=_optional(data, "progressDeadlineSeconds"),
        exit_codes=tuple(_exit_codes(rule) for rule in _list(data, "exitCodes", "spec.failurePolicy")),
    )


def _exit_codes(data: Mapping[str, Any]) -> ExitCodes:
    codes = data.get("codes")
    if not isinstance(codes, list) or not all(isinstance(code, int) for code in codes):
        raise SpecError(f"spec.failurePolicy.exitCodes must have lists of numbers as codes, not {codes!r}")
    try:
        return ExitCodes(frozenset(codes), FailureClass(data.get("class")))
    except ValueError as error:
        known = ", ".join(one.value for one in FailureClass)
        raise SpecError(f"spec.failurePolicy.exitCodes: class must be one of {known}") from error


def _rendezvous(data: Mapping[str, Any]) -> Rendezvous:
    conf, etcd = _part(data, "conf", "spec.rendezvous"), _part(data, "etcd", "spec.rendezvous")
    try:
        backend = Backend(data.get("backend") or Backend.KUBERNETES)
    except ValueError as error:
        known = ", ".join(one.value for one in Backend)
        raise SpecError(f"spec.rendezvous.backend must be one of {known}") from error
    found = Rendezvous(
        backend=backend,
        conf={str(key): str(value) for key, value in conf.items()},
        etcd_endpoint=str(etcd.get("endpoint") or ""),
        etcd_managed=etcd.get("managed") is True,
    )
    if (backend in ETCD_BACKENDS) != (bool(found.etcd_endpoint) != found.etcd_managed):
        raise SpecError(
            "spec.rendezvous.etcd must have an endpoint or managed: true with an etcd backend, and only then"
        )
    return found


def _template(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template, of which all that the operator itself touches is of the right kind."""
    template = _part(data, "template")
    meta, pod = _part(template, "metadata", "spec.template"), _part(template, "spec", "spec.template")
    for field in ("labels", "annotations"):
        _part(meta, field, "spec.template.metadata")
    where = "spec.template.spec"
    _part(pod, "securityContext", where)
    _list(pod, "volumes", where)
    if not _list(pod, "containers", where):
        raise SpecError(f"{where}.containers must have a container")
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for place, container in enumerate(_list(pod, field, where)):
            _container(container, f"{where}.{field}[{place}]")
    return template


def _container(data: Mapping[str, Any], where: str) -> None:
    _part(data, "securityContext", where)
    for field in ("volumeMounts", "ports"):
        _list(data, field, where)
    for field in ("command", "args"):
        if not isinstance(data.get(field) or [], list):
            raise SpecError(f"{where}.{field} must be a list of words")
    if not all(isinstance(variable.get("name"), str) for variable in _list(data, "env", where)):
        raise SpecError(f"{where}.env must name each variable")


def _list(data: Mapping[str, Any], field: str, where: str) -> list[Mapping[str, Any]]:
    value = data.get(field) or []
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise SpecError(f"{where}.{field} must be a list of objects")
    return value
