"""Whatever kind of thing stands in a field of the template: it is refused by name, or the API server's to refuse."""

from typing import Any

import pytest

from elasticjob_operator.api import spec
from elasticjob_operator.autoscaler.seeing import picture
from elasticjob_operator.core import building, deciding
from support import operator_builders as build

POD = (
    "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks "
    "ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname imagePullSecrets initContainers "
    "nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates resourceClaims "
    "resources restartPolicy runtimeClassName schedulerName schedulingGates securityContext serviceAccount "
    "serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations "
    "topologySpreadConstraints volumes"
)
CONTAINER = (
    "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy "
    "resources restartPolicy securityContext startupProbe stdin terminationMessagePath terminationMessagePolicy tty "
    "volumeDevices volumeMounts workingDir"
)
"""All fields of a PodSpec and of a container, by the reference of the Kubernetes API."""

NONSENSE: tuple[Any, ...] = (5, True, "x", [1], ["x"], [[]], [{}], {}, {"x": 1}, {"x": {}}, {"x": [1]}, None)


def survived(template: dict[str, Any]) -> None:
    """The operator's decision and the autoscaler's picture of a job with this template."""
    try:
        wish = build.a_spec(nodes=2, template=template)
    except spec.SpecError:
        return
    job = build.a_job(nodes=2, template=template)
    deciding.decide(build.seen(build.a_round(), job=job, leases=[build.held(0)], having=[]), build.NOW)
    building.pod(job, wish, 0, 0, avoid=("n0",), near=("zone",), firm=True)
    picture.seen(job, ("nvidia.com/gpu",))


@pytest.mark.parametrize("field", POD.split())
def test_nothing_in_a_pods_field_raises(field: str) -> None:
    for value in NONSENSE:
        survived({"spec": {"containers": [{"name": "trainer", "image": "x"}], field: value}})


@pytest.mark.parametrize("field", CONTAINER.split())
def test_nothing_in_a_containers_field_raises(field: str) -> None:
    for value in NONSENSE:
        container = {"name": "trainer", "image": "x", field: value}
        survived({"spec": {"containers": [container], "initContainers": [{**container, "name": "first"}]}})
