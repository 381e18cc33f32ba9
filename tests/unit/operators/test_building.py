"""The pod of a slot, whole."""

import copy
from typing import Any

import pytest

from elasticjob_operator.api import names, spot
from elasticjob_operator.core import building, deciding, placing
from support import operator_builders as build

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"team": "vision", "elasticjob.dev/slot": "99"}, "annotations": {"note": "mine"}},
    "spec": {
        "containers": [
            {
                "name": "trainer",
                "image": "docker.io/me/train:1",
                "command": ["torchrun", "train.py"],
                "env": [{"name": "RANK", "value": "7"}, {"name": "WHERE", "value": "$(PET_RDZV_ENDPOINT)"}],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
            },
            {"name": "side", "image": "docker.io/me/side:1"},
        ],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    },
}


def made(template: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Slot 1's third pod of a job with this template."""
    job = build.a_job(template=template, **fields)
    return building.pod(job, build.a_spec(template=template, **fields), 1, 2)


def test_the_whole_pod() -> None:
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

    assert made(TEMPLATE, minNodes=2, maxNodes=4, nprocPerNode="gpu") == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "digits-1-2",
            "namespace": "default",
            "labels": {
                "team": "vision",
                "app.kubernetes.io/managed-by": "elasticjob",
                "elasticjob.dev/job-name": "digits",
                "elasticjob.dev/slot": "1",
            },
            "annotations": {
                "sidecar.istio.io/inject": "false",
                "linkerd.io/inject": "disabled",
                "note": "mine",
                "elasticjob.dev/template": building.digest(TEMPLATE),
            },
            "ownerReferences": [
                {
                    "apiVersion": "elasticjob.dev/v1alpha1",
                    "kind": "ElasticJob",
                    "name": "digits",
                    "uid": build.UID,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "trainer",
                    "image": "docker.io/me/train:1",
                    "command": ["torchrun", "train.py"],
                    "env": [
                        {"name": "PET_RDZV_BACKEND", "value": "kubernetes"},
                        {"name": "PET_RDZV_ENDPOINT", "value": "default/digits"},
                        {"name": "PET_RDZV_ID", "value": build.UID},
                        {"name": "PET_NNODES", "value": "2:4"},
                        {"name": "PET_NPROC_PER_NODE", "value": "gpu"},
                        {"name": "PET_MAX_RESTARTS", "value": "1000000"},
                        {"name": "PET_STANDALONE", "value": "0"},
                        {"name": "ELASTICJOB_SLOT", "value": "1"},
                        {"name": "ELASTICJOB_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                        {"name": "ELASTICJOB_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                        {"name": "WHERE", "value": "$(PET_RDZV_ENDPOINT)"},
                    ],
                    "resources": {"limits": {"nvidia.com/gpu": 1}},
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [
                        {"name": "elasticjob-shm", "mountPath": "/dev/shm"},
                        {
                            "name": "elasticjob-token",
                            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                            "readOnly": True,
                        },
                    ],
                    "securityContext": context,
                },
                {"name": "side", "image": "docker.io/me/side:1", "securityContext": context},
            ],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "elasticjob-shm", "emptyDir": {"medium": "Memory"}},
                {
                    "name": "elasticjob-token",
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                            {
                                "downwardAPI": {
                                    "items": [
                                        {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
                                    ]
                                }
                            },
                        ]
                    },
                },
            ],
            "serviceAccountName": "digits-worker",
            "automountServiceAccountToken": False,
            "affinity": placing.steady(None),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 60,
            "enableServiceLinks": False,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        },
    }


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_who_asks_for_a_mesh_gets_it(place: str) -> None:
    meta = made({**TEMPLATE, "metadata": {place: {"sidecar.istio.io/inject": "true"}}})["metadata"]

    assert meta[place]["sidecar.istio.io/inject"] == "true"
    assert meta["annotations"].get("sidecar.istio.io/inject") != "false"
    assert meta["annotations"]["linkerd.io/inject"] == "disabled"


def test_the_minimums_pods_prefer_cluster_nodes_that_stay_and_the_others_take_what_there_is() -> None:
    least, more = (made(TEMPLATE, minNodes=least, maxNodes=4)["spec"].get("affinity") for least in (2, 1))

    (wish,) = least["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    avoided = {e["key"]: e["values"] for e in wish["preference"]["matchExpressions"] if e["operator"] == "NotIn"}
    assert avoided == {key: [value] for key, value in spot.LABELS.items()}
    assert more is None


def test_a_preference_is_for_templates_that_say_nothing_of_cluster_nodes() -> None:
    mine: dict[str, Any] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    near: dict[str, Any] = {"podAffinity": {"a": 1}}

    assert placing.steady(mine) == mine
    assert placing.steady(near) == {**near, **made(TEMPLATE, minNodes=2, maxNodes=4)["spec"]["affinity"]}


def test_pods_are_drawn_to_each_other_where_the_installation_says_so_and_the_template_nothing() -> None:
    domains = ("kubernetes.io/hostname", "zone")
    mine = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "affinity": {"podAntiAffinity": {}}}}

    def affinity(template: dict[str, Any], near: tuple[str, ...]) -> Any:
        job = build.a_job(template=template)
        return building.pod(job, build.a_spec(template=template), 1, 0, near=near)["spec"].get("affinity")

    wishes = affinity(TEMPLATE, domains)["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [(w["weight"], w["podAffinityTerm"]["topologyKey"]) for w in wishes] == [(100, domains[0]), (50, "zone")]
    assert {str(w["podAffinityTerm"]["labelSelector"]["matchLabels"]) for w in wishes} == {str(names.labels("digits"))}
    assert affinity(mine, domains) == {"podAntiAffinity": {}}
    assert affinity(TEMPLATE, ()) is None


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_where_a_minimum_is_not_for_spot_each_alternative_of_the_template_is_without_it() -> None:
    near = {"key": "zone", "operator": "In", "values": ["a"]}
    mine = {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [near]}, {}]}},
        "podAffinity": {"a": 1},
    }

    def terms(affinity: dict[str, Any] | None) -> list[Any]:
        found = placing.firm(affinity)
        assert isinstance(found, dict)
        return [term["matchExpressions"] for term in found["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]]

    (stays,) = terms(None)
    assert {(e["key"], e["operator"], *e["values"]) for e in stays} == {
        (key, "NotIn", value) for key, value in spot.LABELS.items()
    }
    assert terms(mine) == [[near, *stays], stays]


@pytest.mark.parametrize(
    "affinity",
    [
        "gpu",
        ["gpu"],
        1,
        {"nodeAffinity": "gpu"},
        {"nodeAffinity": {REQUIRED: 1}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": "gpu"}}},
    ],
)
def test_an_affinity_that_is_none_is_left_for_the_api_server_to_refuse(affinity: object) -> None:
    assert placing.steady(affinity) == affinity
    assert placing.firm(affinity) == affinity
    assert placing.ruled_out(affinity, ["a"]) == affinity


def test_the_template_itself_is_left_alone() -> None:
    before = copy.deepcopy(TEMPLATE)

    made(TEMPLATE)

    assert before == TEMPLATE


def test_the_container_named_trainer_trains_wherever_it_stands() -> None:
    template = copy.deepcopy(TEMPLATE)
    template["spec"]["containers"].reverse()

    side, trainer = made(template)["spec"]["containers"]

    assert "env" not in side
    assert trainer["env"][0] == {"name": "PET_RDZV_BACKEND", "value": "kubernetes"}


@pytest.mark.parametrize(
    ("where", "what", "kept"),
    [
        ("spec", {"terminationGracePeriodSeconds": 5}, {"terminationGracePeriodSeconds": 5}),
        ("spec", {"securityContext": {"runAsUser": 7}}, None),
        ("container", {"securityContext": {"privileged": True}}, {"securityContext": {"privileged": True}}),
        ("container", {"volumeMounts": [{"name": "data", "mountPath": "/dev/shm"}]}, None),
    ],
)
def test_what_the_user_has_set_stays(where: str, what: dict[str, Any], kept: dict[str, Any] | None) -> None:
    template = copy.deepcopy(build.TEMPLATE)
    (template["spec"] if where == "spec" else template["spec"]["containers"][0]).update(what)

    pod = made(template)["spec"]

    place = pod if where == "spec" else pod["containers"][0]
    if kept is not None:
        assert {key: place[key] for key in kept} == kept
    elif where == "spec":
        assert place["securityContext"]["runAsUser"] == 7
        assert place["securityContext"]["runAsNonRoot"] is True
    else:
        assert [m["name"] for m in place["volumeMounts"] if m["mountPath"] == "/dev/shm"] == ["data"]


def test_who_asks_for_root_is_not_forbidden_it_here() -> None:
    template = copy.deepcopy(build.TEMPLATE)
    template["spec"]["containers"][0]["securityContext"] = {"runAsUser": 0}

    assert "runAsNonRoot" not in made(template)["spec"]["securityContext"]


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("PET_RDZV_BACKEND", True),
        ("WORLD_SIZE", True),
        ("MASTER_ADDR", True),
        ("ELASTICJOB_SLOT", True),
        ("TORCHELASTIC_RUN_ID", True),
        ("PET_LOG_DIR", False),
        ("NCCL_DEBUG", False),
    ],
)
def test_only_what_would_contradict_the_rendezvous_is_overridden(name: str, *, ours: bool) -> None:
    template = copy.deepcopy(build.TEMPLATE)
    template["spec"]["containers"][0]["env"] = [{"name": name, "value": "x"}]

    values = [e["value"] for e in made(template)["spec"]["containers"][0]["env"] if e["name"] == name and "value" in e]

    assert building.overridden(build.a_spec(template=template)) == ((name,) if ours else ())
    assert (values == ["x"]) is not ours


@pytest.mark.parametrize(
    ("fields", "flags"),
    [
        ({"command": ["torchrun", "train.py", "--nnodes=2"]}, ()),
        ({"command": ["torchrun", "--nproc-per-node=2", "train.py"]}, ()),
        ({"command": ["python", "train.py", "--standalone"]}, ()),
        ({}, ()),
        ({"command": ["torchrun"], "args": ["--standalone", "train.py"]}, ("--standalone",)),
        ({"args": ["torchrun", "--nnodes", "2", "--rdzv_backend=c10d", "a.py"]}, ("--nnodes", "--rdzv-backend")),
        ({"command": ["sh", "-c", "exec torchrun --max-restarts=3 -m train"]}, ("--max-restarts",)),
        ({"command": ["python", "-m", "torch.distributed.run", "--master-addr=a", "b.py"]}, ("--master-addr",)),
    ],
)
def test_flags_of_torchruns_that_override_the_operator_are_told(fields: dict[str, Any], flags: tuple[str, ...]) -> None:
    template = {"spec": {"containers": [{"name": "trainer", "image": "x", **fields}]}}

    assert building.overriding(build.a_spec(template=template)) == flags
    told = deciding.decide(build.seen(job=build.a_job(template=template)), build.NOW).events
    assert [e.reason for e in told if e.reason == "CommandOverrides"] == ["CommandOverrides"] * bool(flags)
