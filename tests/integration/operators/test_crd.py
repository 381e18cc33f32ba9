"""The API itself: bad input is refused when it is applied, with a message that names the field."""

import copy
import pathlib
from typing import Any

import pytest

from cluster import ClusterError, LocalCluster
from elasticjob_operator.kube import client as clients
from elasticjob_operator.kube import errors
from support import operator_builders as build

CRD = pathlib.Path(__file__).parents[3] / "crds/elasticjobs.yaml"


def template(**fields: Any) -> dict[str, Any]:
    """A template with these fields in its pod's spec."""
    return {"spec": {**copy.deepcopy(build.TEMPLATE["spec"]), **fields}}


def container(**fields: Any) -> dict[str, Any]:
    """A spec's template with these fields in its container."""
    return {"template": template(containers=[{**build.TEMPLATE["spec"]["containers"][0], **fields}])}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "min above max": ({"minNodes": 5, "maxNodes": 4}, "spec.minNodes (5) must not be greater than spec.maxNodes (4)"),
    "nodes below min": ({"minNodes": 2, "nodes": 1}, "spec.nodes is 1, which is not from spec.minNodes (2) to spec."),
    "nodes above max": (
        {"nodes": 5},
        "spec.nodes is 5, which is not from spec.minNodes (1) to spec.maxNodes (4): change",
    ),
    "no nodes": ({"nodes": 0}, "spec.nodes must be at least 1; to end all pods and keep the job set spec.suspend"),
    "fewer than no nodes": ({"nodes": -1}, "spec.nodes must be at least 1"),
    "no minimum": ({"minNodes": 0}, "spec.minNodes in body should be greater than or equal to 1"),
    "negative maximum": ({"maxNodes": -1}, "spec.maxNodes in body should be greater than or equal to 1"),
    "far too many": ({"maxNodes": 1025}, "spec.maxNodes in body should be less than or equal to 1024"),
    "a word for a number": ({"maxNodes": "four"}, "spec.maxNodes in body must be of type integer"),
    "a number as text": ({"nodes": "2"}, "spec.nodes in body must be of type integer"),
    "half a node": ({"nodes": 1.5}, "must be of type int"),
    "no maximum": ({"maxNodes": None}, "spec.maxNodes"),
    "no template": ({"template": None}, "spec.template"),
    "no containers": (
        {"template": {"spec": {"containers": []}}},
        "spec.template.spec.containers in body should have at least 1",
    ),
    "no pod spec": ({"template": {}}, "spec.template.spec"),
    "a container without an image": ({"template": template(containers=[{"name": "a"}])}, "containers[0].image"),
    "a container without a name": ({"template": template(containers=[{"image": "a"}])}, "containers[0].name"),
    "one name twice": (
        {"template": template(containers=[{"name": "a", "image": "a"}] * 2)},
        "spec.template.spec.containers[1]",
    ),
    "an environment that is a map": (
        container(env={"A": "1"}),
        'unknown field "spec.template.spec.containers[0].env.A"',
    ),
    "an environment that is a text": (container(env="A=1"), "containers[0].env in body must be of type array"),
    "a variable without a name": (container(env=[{"value": "1"}]), "containers[0].env[0].name"),
    "mounts that are no list": (container(volumeMounts="a:b"), "volumeMounts in body must be of type array"),
    "a context that is no object": (container(securityContext="x"), "securityContext in body must be of type object"),
    "volumes that are no list": ({"template": template(volumes="a")}, "volumes in body must be of type array"),
    "a pod's context that is no object": (
        {"template": template(securityContext=[])},
        "spec.template.spec.securityContext in body must be of type object",
    ),
    "init containers that are no list": (
        {"template": template(initContainers="a")},
        "spec.template.spec.initContainers in body must be of type array",
    ),
    "restarts by the kubelet": ({"template": template(restartPolicy="Always")}, "spec.template.spec.restartPolicy"),
    "unknown workers": (
        {"nprocPerNode": "all"},
        "spec.nprocPerNode must be a number from 1 to 1024, or auto, gpu or cpu",
    ),
    "no workers": ({"nprocPerNode": 0}, "spec.nprocPerNode must be a number from 1 to 1024"),
    "fewer than no failures": ({"failurePolicy": {"maxFailures": -1}}, "spec.failurePolicy.maxFailures in body"),
    "a class that is none": (
        {"failurePolicy": {"exitCodes": [{"codes": [3], "class": "Mine"}]}},
        'spec.failurePolicy.exitCodes[0].class: Unsupported value: "Mine"',
    ),
    "an exit code that is none": (
        {"failurePolicy": {"exitCodes": [{"codes": [256], "class": "Fatal"}]}},
        "spec.failurePolicy.exitCodes[0].codes[0] in body should be less than or equal to 255",
    ),
    "a backend that is none": (
        {"rendezvous": {"backend": "zeus"}},
        'spec.rendezvous.backend: Unsupported value: "zeus"',
    ),
    "a static job of two sizes": (
        {"rendezvous": {"backend": "static"}},
        "spec.minNodes must equal spec.maxNodes, because the rendezvous backend static",
    ),
    "an etcd backend without an etcd": ({"rendezvous": {"backend": "etcd-v2"}}, "spec.rendezvous.etcd must have"),
    "an etcd that is managed and elsewhere": (
        {"rendezvous": {"backend": "etcd", "etcd": {"endpoint": "a:1", "managed": True}}},
        "spec.rendezvous.etcd must have either an endpoint or managed",
    ),
    "an etcd for who needs none": ({"rendezvous": {"etcd": {"managed": True}}}, "and neither with others"),
    "an etcd that is a URL": (
        {"rendezvous": {"backend": "etcd", "etcd": {"endpoint": "http://a:1"}}},
        "spec.rendezvous.etcd.endpoint in body should match",
    ),
    "two settings in one": ({"rendezvous": {"conf": {"a": "1,b=2"}}}, "spec.rendezvous.conf.a in body should match"),
    "a setting without a name": ({"rendezvous": {"conf": {"A b": "1"}}}, "spec.rendezvous.conf must have names of"),
    "a setting of the operator's": ({"rendezvous": {"conf": {"is_host": "1"}}}, "spec.rendezvous.conf must not have"),
    "negative patience": (
        {"resizePolicy": {"newcomerTimeoutSeconds": 0}},
        "spec.resizePolicy.newcomerTimeoutSeconds in body",
    ),
    "a deadline of no time": ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds in body should be greater"),
    "a word for a wish to rest": ({"suspend": "yes"}, "spec.suspend in body must be of type boolean"),
    "a policy that there is not": ({"cleanPodPolicy": "Some"}, 'spec.cleanPodPolicy: Unsupported value: "Some"'),
    "sizes that leave none": (
        {"minNodes": 3, "maxNodes": 4, "allowedNodes": {"step": 5}},
        "spec.allowedNodes.step (5) has no multiple from spec.minNodes (3) to spec.maxNodes (4)",
    ),
    "a size that the job can't have": (
        {"minNodes": 2, "allowedNodes": {"sizes": [2, 4, 8, 1]}},
        "spec.allowedNodes.sizes has 8, which is not from spec.minNodes (2) to spec.maxNodes (4)",
    ),
    "sizes that torch would not keep to": (
        {"allowedNodes": {"step": 1}, "rendezvous": {"backend": "c10d"}},
        "spec.allowedNodes must be left out with this rendezvous backend",
    ),
    "two ways to name sizes": ({"allowedNodes": {"step": 1, "sizes": [1]}}, "must have either step or sizes"),
    "no way to name sizes": ({"allowedNodes": {}}, "must have either step or sizes"),
    "a typing error": ({"maxReplica": 4}, 'unknown field "spec.maxReplica"'),
}


def manifest(namespace: str, name: str = "digits", **fields: Any) -> dict[str, Any]:
    """A job with these fields; those that are None are left out."""
    made = build.manifest(name, **fields)
    made["metadata"]["namespace"] = namespace
    made["spec"] = {key: value for key, value in made["spec"].items() if value is not None}
    return made


async def strictly(admin: clients.Client, made: dict[str, Any]) -> dict[str, Any]:
    """Create as kubectl does: unknown fields are refused."""
    where = clients.path("ElasticJob", made["metadata"]["namespace"])
    return await admin.request("POST", where, query={"fieldValidation": "Strict"}, body=made)


@pytest.mark.parametrize("what", BAD)
async def test_bad_input_is_refused_by_a_message_that_names_the_field(
    what: str, admin: clients.Client, namespace: str
) -> None:
    fields, message = BAD[what]

    with pytest.raises(errors.RefusedError) as refused:
        await strictly(admin, manifest(namespace, **fields))

    assert message in refused.value.message


@pytest.mark.parametrize(("name", "message"), [("a" * 51, "at most 50 characters"), ("a.b", "must not contain a dot")])
async def test_a_name_that_others_cannot_be_derived_from_is_refused(
    name: str, message: str, admin: clients.Client, namespace: str
) -> None:
    with pytest.raises(errors.RefusedError) as refused:
        await strictly(admin, manifest(namespace, name))

    assert message in refused.value.message


async def test_what_is_left_out_has_a_default(admin: clients.Client, namespace: str) -> None:
    made = await strictly(admin, manifest(namespace, "a" * 50, minNodes=None))

    assert made["spec"] == {
        "minNodes": 1,
        "maxNodes": 4,
        "suspend": False,
        "nprocPerNode": 1,
        "failurePolicy": {"maxFailures": 10, "maxInfrastructureFailures": 100, "refillSteps": 100},
        "resizePolicy": {"checkpointGraceSeconds": 30, "newcomerTimeoutSeconds": 300, "cooldownSeconds": 0},
        "cleanPodPolicy": "Running",
        "rendezvous": {"backend": "kubernetes"},
        "template": build.TEMPLATE,
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"nprocPerNode": 2}, "spec.nprocPerNode can't be changed"),
        ({"template": template(serviceAccountName="root")}, "spec.template.spec.serviceAccountName can't be changed"),
        ({"minNodes": 3, "nodes": 2}, "which is not from spec.minNodes"),
        ({"nodes": 9}, "which is not from spec.minNodes"),
    ],
)
async def test_what_running_pods_rely_on_cannot_be_changed(
    fields: dict[str, Any], message: str, admin: clients.Client, namespace: str
) -> None:
    made = await strictly(admin, manifest(namespace))

    with pytest.raises(errors.RefusedError) as refused:
        await admin.replace("ElasticJob", {**made, "spec": {**made["spec"], **fields}})

    assert message in refused.value.message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"maxNodes": 5}, "spec.minNodes and spec.maxNodes can't be changed with this rendezvous backend"),
        ({"rendezvous": {"backend": "kubernetes"}}, "spec.rendezvous can't be changed"),
    ],
)
async def test_what_torchs_own_backends_cannot_be_told_is_refused(
    fields: dict[str, Any], message: str, admin: clients.Client, namespace: str
) -> None:
    made = await strictly(admin, manifest(namespace, rendezvous={"backend": "c10d"}))

    with pytest.raises(errors.RefusedError) as refused:
        await admin.replace("ElasticJob", {**made, "spec": {**made["spec"], **fields}})

    assert message in refused.value.message


async def test_a_job_that_a_service_is_named_after_begins_with_a_letter(admin: clients.Client, namespace: str) -> None:
    with pytest.raises(errors.RefusedError, match=r"metadata\.name must begin with a letter"):
        await strictly(admin, manifest(namespace, "1st", rendezvous={"backend": "c10d"}))
    await strictly(admin, manifest(namespace, "1st"))


async def test_the_whole_pod_template_is_kept(admin: clients.Client, namespace: str) -> None:
    whole = template(
        containers=[
            {
                "name": "t",
                "image": "i",
                "resources": {"limits": {"nvidia.com/gpu": 8}},
                "env": [{"name": "A", "value": "😀"}],
            }
        ],
        initContainers=[{"name": "side", "image": "i", "restartPolicy": "Always", "env": None, "volumeMounts": None}],
        securityContext={"fsGroup": 7},
        tolerations=[{"operator": "Exists"}],
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    )

    made = await strictly(admin, manifest(namespace, template=whole))

    assert made["spec"]["template"] == whole


def test_kubectl_applies_scales_explains_and_shows_it(control_plane: LocalCluster, tmp_path: pathlib.Path) -> None:
    assert len(CRD.read_bytes()) < 256 * 1024
    control_plane.kubectl("apply", "-f", str(CRD))
    path = tmp_path / "job.yaml"
    path.write_text(
        "apiVersion: elasticjob.dev/v1alpha1\nkind: ElasticJob\nmetadata: {name: shown}\n"
        "spec: {maxNodes: 4, nodes: 1, template: {spec: {containers: [{name: trainer, image: x}]}}}\n"
    )
    control_plane.kubectl("apply", "-f", str(path))

    control_plane.kubectl("scale", "ej/shown", "--replicas=3")
    with pytest.raises(ClusterError, match="to end all pods and keep the job set"):
        control_plane.kubectl("scale", "ej/shown", "--replicas=0")

    assert control_plane.kubectl("get", "ml", "shown", "-o", "jsonpath={.spec.nodes}") == "3"
    columns = control_plane.kubectl("get", "ej", "shown").split("\n")[0].split()
    size, life, why = ["NODES", "WANTED", "MIN", "MAX"], ["ROUND", "FAILURES", "RESIZES", "STEP"], ["REASON", "AGE"]
    assert columns == ["NAME", "STATE", *size, *life, *why]
    assert "kubectl scale" in control_plane.kubectl("explain", "elasticjob.spec.nodes")
    control_plane.kubectl("delete", "ej", "shown")
