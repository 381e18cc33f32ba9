"""What a pod template may not ask for unless the installation allows it: whatever reaches beyond the job's own pods.

Who may create ElasticJobs need not be who may create pods like these, and the operator, which creates them, may create
any. A namespace with Pod Security *restricted* refuses most of it by itself; not every namespace is one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from elasticjob_operator.api.spec import Spec
from elasticjob_operator.core.actions import Problem

PRIVILEGE_REFUSED = "PrivilegeRefused"

_WHERE = "spec.template.spec"
_HARMLESS = frozenset({"NET_BIND_SERVICE"})
"""Capabilities that Pod Security *restricted* allows."""


def refusal(wish: Spec, allowed: frozenset[str]) -> Problem | None:
    """What of the template is not allowed here."""
    asked = sorted((privilege, path) for privilege, path in _asked(wish.template["spec"]) if privilege not in allowed)
    if not asked:
        return None
    paths = ", ".join(path for _, path in asked[:8])
    needed = ",".join(sorted({privilege for privilege, _ in asked}))
    message = f"{paths}: not allowed by this installation; take it out, or have operator.allowedPrivileges={{{needed}}}"
    return Problem(PRIVILEGE_REFUSED, f"{message} set in the chart")


def _asked(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Privileges that a pod's spec asks for, each with where."""
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield field, f"{_WHERE}.{field}"
    if pod.get("serviceAccountName"):
        yield "serviceAccount", f"{_WHERE}.serviceAccountName"
    for place, volume in enumerate(pod.get("volumes") or ()):
        if "hostPath" in volume:
            yield "hostPath", f"{_WHERE}.volumes[{place}].hostPath"
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for place, container in enumerate(pod.get(field) or ()):
            yield from _container(container, f"{_WHERE}.{field}[{place}]")


def _container(container: Mapping[str, Any], where: str) -> Iterator[tuple[str, str]]:
    context = container.get("securityContext") or {}
    if context.get("privileged"):
        yield "privileged", f"{where}.securityContext.privileged"
    added = _texts((context.get("capabilities") or {}), "add")
    if set(added) - _HARMLESS:
        yield "capabilities", f"{where}.securityContext.capabilities.add"
    for place, port in enumerate(container.get("ports") or ()):
        if port.get("hostPort"):
            yield "hostPort", f"{where}.ports[{place}].hostPort"


def _texts(data: Any, field: str) -> list[str]:
    """A list of texts where there is one; what is of another kind the API server refuses by itself."""
    value = data.get(field) if isinstance(data, Mapping) else None
    return [str(item) for item in value] if isinstance(value, list) else []
