"""A control plane of its own: up in seconds, found again after its launcher was killed, gone without a trace."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import (
    LocalCluster,
    cgroups,
    control_plane,
    errors,
    folders,
    machines,
    processes,
    providers,
    running,
    storage,
    waiting,
)
from support import audit, checkout

TESTS = Path(__file__).parents[1]
CONTROL, BESIDE, DOWN, KILLED, BROKEN, OUTLIVES = (
    checkout.cluster_name(f"test-{purpose}")
    for purpose in ("control", "beside", "down", "killed", "broken", "outlives")
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    cluster = LocalCluster.start(name=CONTROL, control_plane_only=True)
    yield cluster
    cluster.down()


def traces(name: str) -> list[str]:
    """Everything that there is of a cluster on this computer: processes, links, cgroups, mounts, files."""
    folder = folders.of(name)
    index = folder.index()
    links = [link["ifname"] for link in json.loads(running.run("ip", "-json", "link"))]
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder.path) in line]
    return [
        *(
            " ".join(process.words)
            for process in processes.find(lambda one: any(str(folder.path) in w for w in one.words))
        ),
        *(link for link in links if link == f"elasticjob{index}"),
        *(str(path) for path in cgroups.existing(folder.cgroup)),
        *mounts,
        *([str(folder.path)] if folder.path.exists() else []),
    ]


def namespaces() -> set[str]:
    """The network namespaces that any process lives in."""
    return {str(link.readlink()) for link in Path("/proc").glob("[0-9]*/ns/net") if _is_alive(link)}


def _is_alive(link: Path) -> bool:
    try:
        return bool(link.readlink())
    except OSError:
        return False


def test_the_api_is_reached_from_here_with_the_clusters_own_certificate(cluster: LocalCluster) -> None:
    assert "insecure" not in cluster.kubeconfig.read_text()
    assert cluster.kubectl("get", "--raw=/readyz") == "ok"


def test_the_controllers_work(cluster: LocalCluster) -> None:
    cluster.kubectl("create", "namespace", "controllers")

    account = waiting.until(
        "the namespace's ServiceAccount",
        lambda: cluster.kubectl("get", "serviceaccounts", "--namespace=controllers", "--output=name"),
        seconds=120,
    )

    assert account.split() == ["serviceaccount/default"]


def test_the_scheduler_works(cluster: LocalCluster) -> None:
    cluster.kubectl("run", "nowhere", "--image=none", "--restart=Never")

    def reason() -> str:
        path = "--output=jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}"
        return cluster.kubectl("get", "pod", "nowhere", path)

    assert waiting.until("a word from the scheduler", reason, seconds=120) == "Unschedulable"


def test_rights_are_checked_and_the_audit_log_shows_it(cluster: LocalCluster) -> None:
    who = "--as=system:serviceaccount:default:nobody"
    with pytest.raises(errors.ClusterError, match="Forbidden"):
        cluster.kubectl("get", "secrets", who)

    entries = list(audit.entries(cluster.audit_log))
    refused = [entry for entry in entries if audit.unauthorized(entry)]

    assert any(entry["objectRef"]["resource"] == "secrets" for entry in refused if "objectRef" in entry)
    assert {entry["stage"] for entry in entries} <= {"ResponseComplete", "ResponseStarted"}


def test_what_the_cluster_does_by_itself_is_never_refused(cluster: LocalCluster) -> None:
    """Otherwise the absence of a 403 would prove nothing about the components under test."""
    entries = list(audit.entries(cluster.audit_log))
    refused = [entry for entry in entries if audit.unauthorized(entry)]

    own = ("system:kube-", "system:node:", "system:apiserver")
    assert [entry for entry in refused if audit.user(entry).startswith(own)] == []


def test_pod_security_is_enforced(cluster: LocalCluster) -> None:
    cluster.kubectl("create", "namespace", "safe")
    cluster.kubectl("label", "namespace", "safe", "pod-security.kubernetes.io/enforce=restricted")

    with pytest.raises(errors.ClusterError, match="violates PodSecurity"):
        cluster.kubectl("run", "--namespace=safe", "unsafe", "--image=none", "--privileged")


def test_the_api_server_can_be_stopped_and_started_with_its_data_kept(cluster: LocalCluster) -> None:
    cluster.kubectl("create", "configmap", "kept")
    cluster.stop_component("kube-apiserver", crash=True)
    with pytest.raises(errors.ClusterError):
        cluster.kubectl("get", "configmap", "kept", "--request-timeout=2s")

    cluster.start_component("kube-apiserver")

    assert "configmap/kept" in cluster.kubectl("get", "configmap", "kept", "--output=name")


def test_a_component_that_dies_is_shown_with_its_log(cluster: LocalCluster) -> None:
    cluster.stop_component("kube-scheduler")
    machine = machines.Machine(folders.of(cluster.name).control, folders.of(cluster.name).cgroup)

    with pytest.raises(errors.ClusterError, match=r"kube-scheduler on control has died:\n.+"):
        machine.require("kube-scheduler")
    cluster.start_component("kube-scheduler")
    machine.require("kube-scheduler")


def test_two_clusters_run_side_by_side(cluster: LocalCluster) -> None:
    other = LocalCluster.start(name=BESIDE, control_plane_only=True)
    try:
        other.kubectl("create", "configmap", "only-there")
        assert "only-there" not in cluster.kubectl("get", "configmaps")
        assert cluster.kubectl("get", "--raw=/readyz") == "ok"
    finally:
        other.down()


def test_a_running_cluster_is_found_by_its_name(cluster: LocalCluster) -> None:
    assert LocalCluster.attach(cluster.name).kubeconfig == cluster.kubeconfig
    with pytest.raises(errors.ClusterError, match="no cluster 'never-there' is running"):
        LocalCluster.attach("never-there")


def test_a_cluster_that_is_there_already_is_used_as_it_is(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER", "current")
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    current = providers.chosen().up("any", nodes=3, gpus=2)

    current.kubectl("create", "configmap", "in-the-current-one")

    assert "in-the-current-one" in cluster.kubectl("get", "configmaps")
    with pytest.raises(errors.ClusterError, match="no storage class elasticjob-shared"):
        current.shared_storage()
    current.down()
    assert cluster.kubectl("get", "--raw=/readyz") == "ok"


def test_shared_storage_can_be_asked_for_again_and_is_empty_then(cluster: LocalCluster) -> None:
    cluster.shared_storage()
    first = folders.of(cluster.name).shared / "1"
    (first / "checkpoint").touch()

    cluster.shared_storage()

    assert list(first.iterdir()) == []
    assert cluster.kubectl("get", "persistentvolumes", "--output=name").count("elasticjob-shared") == storage.VOLUMES


def test_down_leaves_nothing() -> None:
    before = namespaces()
    cluster = LocalCluster.start(name=DOWN, control_plane_only=True)
    assert len(traces(DOWN)) > 5
    assert len(namespaces() - before) >= 1
    link = f"elasticjob{folders.of(DOWN).index()}"

    cluster.down()

    assert traces(DOWN) == []
    assert link not in running.run("ip", "link")
    cluster.down()


@pytest.mark.parametrize("moment", ["the folder", "the machine", "the API server"])
def test_a_launcher_killed_at_any_moment_does_not_keep_the_next_from_working(moment: str) -> None:
    launcher = _launch(KILLED)
    folder = folders.of(KILLED)
    machine = machines.Machine(folder.control, folder.cgroup)
    reached = {
        "the folder": lambda: folder.index() is not None,
        "the machine": lambda: machine.running,
        "the API server": (machine.logs / "kube-apiserver").exists,
    }[moment]
    waiting.until(moment, reached, seconds=120, interval=0.001)
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()

    again = LocalCluster.start(name=KILLED, control_plane_only=True)
    assert again.kubectl("get", "--raw=/readyz") == "ok"
    again.down()

    assert traces(KILLED) == []


def test_a_cluster_that_cannot_start_says_why_and_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = control_plane.ControlPlane._api_server
    monkeypatch.setattr(
        control_plane.ControlPlane, "_api_server", lambda self: {**flags(self), "authorization-mode": "Nonsense"}
    )

    with pytest.raises(errors.ClusterError, match=r"kube-apiserver on control has died:\n(.*\n)*.*Nonsense"):
        LocalCluster.start(name=BROKEN, control_plane_only=True)

    assert processes.find(lambda one: any(str(folders.of(BROKEN).path) in word for word in one.words)) == []
    LocalCluster.stop(BROKEN)
    assert traces(BROKEN) == []


def test_launchers_of_one_name_come_one_after_the_other_and_any_process_can_take_down_what_they_leave() -> None:
    launchers = [_launch(OUTLIVES) for _ in range(2)]
    assert [launcher.wait(120) for launcher in launchers] == [0, 0]

    assert LocalCluster.attach(OUTLIVES).kubectl("get", "--raw=/readyz") == "ok"
    LocalCluster.stop(OUTLIVES)

    assert traces(OUTLIVES) == []


def _launch(name: str) -> "subprocess.Popen[bytes]":
    script = f"from cluster import LocalCluster; LocalCluster.start(name={name!r}, control_plane_only=True)"
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    return subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL)
