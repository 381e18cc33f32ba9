"""What the components are told: the flags and files that tests and other components rely on."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import addresses, containerd, control_plane, folders, kubeconfigs, nodes, parts, pki, tools

CLUSTER = parts.Parts(folders.Folder(Path("/clusters/one")), addresses.Addresses(4))


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "path", lambda name: Path("/bin-folder") / name)


def flags(command: list[str]) -> dict[str, str]:
    """A command line's flags, each with its value."""
    return dict(word.removeprefix("--").split("=", 1) for word in command[1:])


@pytest.fixture
def node() -> nodes.Node:
    return CLUSTER.node("node-3")


def test_the_api_server_checks_rights_as_in_production() -> None:
    told = flags(CLUSTER.control.command("kube-apiserver"))

    assert told["authorization-mode"] == "Node,RBAC"
    assert told["enable-admission-plugins"] == "NodeRestriction"
    assert not {"token-auth-file", "anonymous-auth"} & told.keys()


def test_the_audit_log_has_one_entry_for_each_answered_request() -> None:
    told = flags(CLUSTER.control.command("kube-apiserver"))
    policy = yaml.safe_load(control_plane.AUDIT_POLICY)

    assert told["audit-log-path"] == str(CLUSTER.folder.audit_log)
    assert policy["omitStages"] == ["RequestReceived"]
    assert policy["rules"][-1] == {"level": "Metadata"}  # nothing is left out
    assert not [rule for rule in policy["rules"] if rule["level"] == "None"]


def test_each_component_runs_the_program_of_its_name() -> None:
    for component in (*control_plane.SERVERS, *control_plane.CONTROLLERS):
        assert Path(CLUSTER.control.command(component)[0]).name == component


def test_etcd_is_reached_from_inside_the_machine_only() -> None:
    told = flags(CLUSTER.control.command("etcd"))

    assert all(told[flag].startswith("http://127.0.0.1:") for flag in told if flag.endswith("-urls"))


def test_controllers_act_under_accounts_of_their_own() -> None:
    assert flags(CLUSTER.control.command("kube-controller-manager"))["use-service-account-credentials"] == "true"


def test_a_node_is_lost_only_after_several_reports_are_missing(node: nodes.Node) -> None:
    told = flags(CLUSTER.control.command("kube-controller-manager"))
    grace = int(told["node-monitor-grace-period"].removesuffix("s"))

    assert node.kubelet()["nodeStatusUpdateFrequency"] == f"{nodes.REPORT_SECONDS}s"
    assert grace >= 3 * nodes.REPORT_SECONDS
    assert grace > nodes.LEASE_SECONDS


def test_a_kubelet_lets_in_whom_the_api_server_vouches_for(node: nodes.Node) -> None:
    told: dict[str, Any] = node.kubelet()

    assert told["authentication"]["anonymous"] == {"enabled": False}
    assert told["authorization"] == {"mode": "Webhook"}


def test_a_kubelet_speaks_as_its_node() -> None:
    identity = pki.kubelet("node-3", "10.200.4.13")

    assert identity.subject == "/O=system:nodes/CN=system:node:node-3"
    assert identity.alternatives == "DNS:node-3,IP:10.200.4.13"


def test_a_kubelet_keeps_everything_in_its_own_folder(node: nodes.Node) -> None:
    home = str(node.machine.home)
    command = flags(node.command("kubelet"))
    told: dict[str, Any] = node.kubelet()

    assert all(command[flag].startswith(home) for flag in ("config", "kubeconfig", "root-dir", "cert-dir"))
    assert all(told[field].startswith(home) for field in ("podLogsDir", "volumePluginDir"))


def test_the_host_kernels_limits_are_left_as_they_are(node: nodes.Node) -> None:
    told = flags(node.command("kube-proxy"))

    assert told["conntrack-max-per-core"] == told["conntrack-min"] == "0"


def test_a_nodes_pods_get_addresses_of_its_subnet(node: nodes.Node) -> None:
    network: Any = json.loads(json.dumps(node.pod_network()))

    assert network["plugins"][0]["ipam"]["ranges"] == [[{"subnet": addresses.pod_subnet(3)}]]


def test_containerd_is_given_its_own_folders(node: nodes.Node) -> None:
    text = containerd.configuration(root=node.images, pod_network=Path("/cni"))

    assert f'root = "{node.images}"' in text
    assert 'conf_dir = "/cni"' in text
    assert text.count("{") == text.count("}") == 0


def test_the_api_servers_certificate_is_good_for_every_way_to_it() -> None:
    names = pki.api_server(CLUSTER.own).alternatives.split(",")

    assert {"IP:127.0.0.1", "DNS:localhost", f"IP:{addresses.API_SERVICE}", f"IP:{CLUSTER.own.control_plane}"} <= {
        *names
    }
    assert "DNS:kubernetes.default.svc" in names


def test_certificates_are_made_and_can_be_read_back(tmp_path: Path) -> None:
    authority = pki.Authority(tmp_path / "pki")
    authority.create()
    pair = authority.issue("admin", pki.ADMIN)
    file = kubeconfigs.write(tmp_path / "kubeconfig", name="one", url="https://x", authority=authority, pair=pair)

    assert pair.key.read_text().startswith("-----BEGIN")
    assert file.stat().st_mode & 0o077 == 0
    read = yaml.safe_load(file.read_text())
    assert read["clusters"][0]["cluster"].keys() == {"server", "certificate-authority-data"}
    assert read["current-context"] == "one"
