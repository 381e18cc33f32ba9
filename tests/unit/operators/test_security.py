"""What pods may not ask for, and who may reach them."""

from typing import Any

import pytest

from elasticjob_operator.api import settings
from elasticjob_operator.api.installation import PRIVILEGES, Installation
from elasticjob_operator.core import building, deciding, permitting, shielding
from elasticjob_operator.core.actions import Create, Decision
from elasticjob_operator.core.observed import Access
from support import operator_builders as build
from support.operator_builders import NOW, a_job, seen

HOST_PATH = {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/"}}]}
ASKING: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "hostPath": (HOST_PATH, {}, "spec.template.spec.volumes[1].hostPath"),
    "hostNetwork": ({"hostNetwork": True}, {}, "spec.template.spec.hostNetwork"),
    "hostPID": ({"hostPID": True}, {}, "spec.template.spec.hostPID"),
    "hostIPC": ({"hostIPC": True}, {}, "spec.template.spec.hostIPC"),
    "serviceAccount": ({"serviceAccountName": "root"}, {}, "spec.template.spec.serviceAccountName"),
    "hostPort": ({}, {"ports": [{"hostPort": 80}]}, "spec.template.spec.containers[0].ports[0].hostPort"),
    "privileged": (
        {},
        {"securityContext": {"privileged": True}},
        "spec.template.spec.containers[0].securityContext.privileged",
    ),
    "capabilities": (
        {},
        {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}},
        "spec.template.spec.containers[0].securityContext.capabilities.add",
    ),
}


def template(pod: dict[str, Any], container: dict[str, Any]) -> dict[str, Any]:
    """A template with these fields in its pod and in its container."""
    return {"spec": {**pod, "containers": [{**build.TEMPLATE["spec"]["containers"][0], **container}]}}


def decided(privileges: frozenset[str] = frozenset(), **installation: Any) -> Decision:
    """The first decision about a job that asks for the path of a host."""
    job = a_job(nodes=1, template=template(HOST_PATH, {}))
    return deciding.decide(
        seen(job=job, access=Access(), installation=Installation(privileges=privileges, **installation)), NOW
    )


def created(decision: Decision) -> list[str]:
    """Kinds of the objects that are made."""
    return [action.kind for action in decision.actions if isinstance(action, Create)]


def test_each_privilege_is_tried_here() -> None:
    assert set(ASKING) == set(PRIVILEGES)


@pytest.mark.parametrize("privilege", PRIVILEGES)
def test_what_reaches_beyond_the_jobs_pods_is_refused_by_its_path_unless_it_is_allowed(privilege: str) -> None:
    pod, container, path = ASKING[privilege]
    wish = build.a_spec(template=template(pod, container))

    refused = permitting.refusal(wish, frozenset(PRIVILEGES) - {privilege})

    assert refused is not None
    assert refused.message.startswith(f"{path}: ")
    assert f"operator.allowedPrivileges={{{privilege}}}" in refused.message
    assert permitting.refusal(wish, frozenset({privilege})) is None


@pytest.mark.parametrize(
    "container",
    [
        {"securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}}},
        {"securityContext": {"capabilities": "odd"}},
        {},
    ],
)
def test_what_a_restricted_namespace_takes_is_not_refused_nor_is_what_no_api_server_takes(
    container: dict[str, Any],
) -> None:
    assert permitting.refusal(build.a_spec(template=template({}, container)), frozenset()) is None


def test_a_refused_template_makes_no_pod_and_the_condition_says_why() -> None:
    refused, allowed = decided(), decided(frozenset({"hostPath"}))

    assert "Pod" not in created(refused)
    assert "Pod" in created(allowed)
    (ready,) = [c for c in refused.status.conditions if c.type == "PodsReady"]
    assert (ready.holds, ready.reason) == (False, "PrivilegeRefused")
    assert "spec.template.spec.volumes[1].hostPath" in ready.message
    assert [e.reason for e in refused.events if e.warning] == ["PrivilegeRefused"]


def test_a_foreign_account_is_the_pods_and_gets_the_jobs_rights() -> None:
    job = a_job(nodes=1, template=template({"serviceAccountName": "reader"}, {}))
    allowed = Installation(privileges=frozenset({"serviceAccount"}))

    actions = deciding.decide(seen(job=job, access=Access(), installation=allowed), NOW).actions

    made = {a.kind: a.manifest for a in actions if isinstance(a, Create)}
    assert made["Pod"]["spec"]["serviceAccountName"] == "reader"
    assert [s["name"] for s in made["RoleBinding"]["subjects"]] == ["reader"]
    assert made["ServiceAccount"]["metadata"]["name"] == "digits-worker"


def test_pods_are_let_in_only_to_each_other() -> None:
    policy = shielding.network_policy(a_job())
    pod = building.pod(a_job(), build.a_spec(), 1, 0)

    selector = policy["spec"]["podSelector"]["matchLabels"]
    assert selector.items() <= pod["metadata"]["labels"].items()
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": {"matchLabels": selector}}]}]
    assert policy["spec"]["policyTypes"] == ["Ingress"]


def test_a_job_has_a_network_policy_where_the_installation_says_so() -> None:
    assert "NetworkPolicy" in created(decided(network_policies=True))
    assert "NetworkPolicy" not in created(decided())


def test_privileges_are_read_from_a_flag() -> None:
    found = settings.parse(["--allowed-privileges", "hostPath, hostIPC", "--network-policies=true"], {})

    assert found.installation == Installation(frozenset({"hostPath", "hostIPC"}), network_policies=True)
    with pytest.raises(settings.SettingsError, match="wanted is some of hostPath"):
        settings.parse(["--allowed-privileges=everything"], {})
