"""The chart through Helm: it lints, renders, refuses what it does not know, and fits a restricted namespace."""

import json
import re
import subprocess
from typing import Any

import pytest
import yaml

from cluster import LocalCluster, tools
from elasticjob_operator.api import settings
from elasticjob_operator.autoscaler.simulating import installed
from support.operator_cluster import CHART, ROOT, SYSTEM


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Helm without a cluster."""
    return subprocess.run([tools.path("helm"), *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def rendered(*flags: str) -> list[dict[str, Any]]:
    """The objects that the chart makes."""
    done = helm("template", "elasticjob", str(CHART), "-n", SYSTEM, *flags)
    assert done.returncode == 0, done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def test_it_lints_strictly() -> None:
    assert helm("lint", "--strict", str(CHART)).returncode == 0


@pytest.mark.parametrize(
    "flag",
    ["replica=2", "operator.workers=0", "autoscaler.mode=loud", "image.pullPolicy=Sometimes", "operator.logLevel=loud"],
)
def test_values_that_it_does_not_know_are_refused(flag: str) -> None:
    done = helm("template", "elasticjob", str(CHART), "--set", flag)

    assert done.returncode != 0
    assert flag.split("=", maxsplit=1)[0].rsplit(".", maxsplit=1)[-1] in done.stderr


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("{name: red}, {name: red}", "autoscaler.queues: there are two queues named red: make them one"),
        ("{name: red, quota: 9, limit: 8}", "queue red: its quota of 9 accelerators is above its limit of 8: lower"),
    ],
)
def test_queues_that_contradict_themselves_are_refused_before_anything_is_installed(listed: str, said: str) -> None:
    done = helm("template", "elasticjob", str(CHART), "--set-json", f"autoscaler.queues={json_of(listed)}")

    assert done.returncode != 0
    assert said in done.stderr


def json_of(listed: str) -> str:
    """YAML's short form, as JSON."""
    return json.dumps(yaml.safe_load(f"[{listed}]"))


def test_the_simulator_reads_the_settings_that_the_chart_installs() -> None:
    values = ROOT / "examples/simulate/quotas.yaml"
    (deployment,) = [item for item in rendered("-f", str(values)) if item["kind"] == "Deployment"]
    (operator,) = deployment["spec"]["template"]["spec"]["containers"]
    env = {entry["name"]: entry.get("value", "") for entry in operator["env"]}

    assert settings.parse([], env).autoscaler == installed.read(values)
    assert [queue.limit for queue in installed.read(values).queues] == [None, 16]


def test_what_the_page_tells_to_install_renders() -> None:
    told = re.findall(r"^\$ helm (.*)$", (ROOT / "docs/autoscaling.md").read_text(), re.MULTILINE)

    for arguments in told:
        done = helm(*arguments.replace("upgrade --install", "template").split())
        assert done.returncode == 0, done.stderr
    assert len(told) == 2


def test_one_cluster_role_or_a_role_in_each_watched_namespace() -> None:
    everywhere = rendered()
    somewhere = rendered("--set", "operator.watchNamespaces={a,b}", "--set", "autoscaler.mode=off")

    assert {"ClusterRole", "ClusterRoleBinding"} <= {item["kind"] for item in everywhere}
    (role,) = [item for item in somewhere if item["kind"] == "ClusterRole"]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}]
    off = ("--set", "operator.watchClusterNodes=false", "--set", "autoscaler.mode=off")
    nowhere = rendered("--set", "operator.watchNamespaces={a,b}", *off)
    assert not {"ClusterRole", "ClusterRoleBinding"} & {item["kind"] for item in nowhere}
    places = [item["metadata"]["namespace"] for item in somewhere if item["kind"] == "Role"]
    assert places == ["a", "b", SYSTEM]


def test_the_autoscaler_only_reads_and_needs_no_more_rights_than_that() -> None:
    (role,) = [i for i in rendered() if i["kind"] == "ClusterRole" and i["metadata"]["name"].endswith("-autoscaler")]

    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list", "watch"}
    resources = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert resources == {"nodes", "pods", "resourcequotas", "priorityclasses"}


def test_without_its_crd_it_makes_none() -> None:
    assert not [item for item in rendered("--set", "crds.enabled=false") if item["kind"] == "CustomResourceDefinition"]
    (crd,) = [item for item in rendered() if item["kind"] == "CustomResourceDefinition"]
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_its_pod_is_admitted_where_only_restricted_ones_are(control_plane: LocalCluster) -> None:
    control_plane.kubectl("label", "namespace", SYSTEM, "pod-security.kubernetes.io/enforce=restricted")
    (deployment,) = [item for item in rendered() if item["kind"] == "Deployment"]
    pod = {"apiVersion": "v1", "kind": "Pod", **deployment["spec"]["template"]}
    pod["metadata"] = {"name": "operator"}

    said = control_plane.kubectl("-n", SYSTEM, "apply", "--dry-run=server", "-f", "-", input=yaml.safe_dump(pod))

    assert "operator created" in said
