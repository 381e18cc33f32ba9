"""Which cluster is used, what each kind is asked for, and how the command line answers."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from cluster import __main__ as command_line
from cluster import clusters, current, errors, kind, local, packages, providers, running, storage, tools
from cluster.images import building


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ("", local.LocalCluster),
        ("local", local.LocalCluster),
        ("kind", kind.KindCluster),
        ("current", current.CurrentCluster),
    ],
)
def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch, wanted: str, chosen: type) -> None:
    monkeypatch.setenv("CLUSTER", wanted)

    assert providers.chosen() is chosen


def test_an_unknown_choice_is_refused_with_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "minikube")

    with pytest.raises(errors.ClusterError, match="local, kind, current"):
        providers.chosen()


def test_without_root_one_line_names_the_alternatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(errors.ClusterError, match=r"needs root.*CLUSTER=kind.*CLUSTER=current") as caught:
        packages.ensure({})
    assert "\n" not in str(caught.value)


def test_without_debian_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda program: None)

    with pytest.raises(errors.ClusterError, match="needs runc and this is not Debian"):
        packages.ensure({"runc": "runc"})


def test_what_is_installed_is_not_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(running, "run", lambda *command, **_: pytest.fail(f"ran {command}"))

    packages.ensure({"sh": "dash"})


def test_the_command_line_tells_an_error_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLUSTER", "none-such")

    assert command_line.main(["up"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "cluster: CLUSTER=none-such is none of local, kind, current\n"


def test_who_takes_a_cluster_down_is_told_that_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped: list[str] = []
    monkeypatch.delenv("CLUSTER", raising=False)
    monkeypatch.setattr(local.LocalCluster, "stop", stopped.append)

    assert command_line.main(["down"]) == 0
    assert (stopped, capsys.readouterr().out) == (["demo"], "cluster demo is down, and nothing of it is left\n")


def test_a_kind_cluster_has_the_shared_folder_on_every_node() -> None:
    told: Any = kind.configuration(2, "/shared")

    assert [node["role"] for node in told["nodes"]] == ["control-plane", "worker", "worker"]
    assert all(
        node["extraMounts"] == [{"hostPath": "/shared", "containerPath": kind.STORAGE}] for node in told["nodes"]
    )


def test_shared_volumes_can_be_written_from_several_nodes_and_are_kept() -> None:
    items = json.loads(storage.manifests("/shared"))["items"]
    volumes = [item["spec"] for item in items if item["kind"] == "PersistentVolume"]

    assert len(volumes) == storage.VOLUMES
    assert len({volume["hostPath"]["path"] for volume in volumes}) == storage.VOLUMES
    for volume in volumes:
        assert volume["accessModes"] == ["ReadWriteMany"]
        assert volume["persistentVolumeReclaimPolicy"] == "Retain"
        assert volume["storageClassName"] == "elasticjob-shared"
        assert volume["capacity"] == {"storage": "1Gi"}


def test_shared_folders_can_be_written_by_any_user(tmp_path: Path) -> None:
    storage.make_folders(tmp_path)

    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o777}


def test_the_current_cluster_is_the_one_of_the_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.touch()
    monkeypatch.setenv("KUBECONFIG", f"{first}{os.pathsep}{second}")

    assert current.CurrentCluster("any").kubeconfig == first


def test_without_a_kubeconfig_there_is_no_current_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    with pytest.raises(errors.ClusterError, match="there is no kubeconfig"):
        _ = current.CurrentCluster("any").kubeconfig


def test_the_current_cluster_without_shared_storage_gets_a_clear_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current.CurrentCluster, "kubectl", lambda self, *args: "storageclass.storage.k8s.io/standard\n")

    with pytest.raises(errors.ClusterError, match="no storage class elasticjob-shared"):
        current.CurrentCluster("any").shared_storage()


def pod_that(monkeypatch: pytest.MonkeyPatch, *states: dict[str, Any]) -> list[str]:
    """The current cluster's pod that checks an image goes through *states*; the verbs that kubectl was given."""
    verbs, left = [], list(states)

    def kubectl(_self: Any, *args: str, **_: Any) -> str:
        verbs.append(args[0])
        state = left.pop(0) if args[0] == "get" else {}
        return json.dumps({"status": {"containerStatuses": [{"state": state}] if state else []}})

    monkeypatch.setattr(current.CurrentCluster, "kubectl", kubectl)
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    return verbs


def test_an_image_that_the_current_cluster_has_is_found_by_a_pod_that_goes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verbs = pod_that(monkeypatch, {}, {"waiting": {"reason": "ContainerCreating"}}, {"terminated": {"exitCode": 0}})

    current.CurrentCluster("any").load_image(building.DIGITS.reference)

    assert verbs == ["delete", "apply", "get", "get", "get", "delete"]


def test_an_image_that_the_current_cluster_cannot_get_is_told_with_how_to_build_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verbs = pod_that(monkeypatch, {"waiting": {"reason": "ErrImagePull", "message": "not found"}})

    with pytest.raises(errors.ClusterError, match=r"can't get the image docker.io/elasticjob/digits:dev: not") as told:
        current.CurrentCluster("any").load_image(building.DIGITS.reference)

    assert "docker build --file=images/trainer/Dockerfile" in str(told.value)
    assert "docker build --file=examples/digits/Dockerfile" in str(told.value)
    assert verbs[-1] == "delete"


def test_a_current_cluster_without_accelerators_is_told_how_to_pretend_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current.CurrentCluster, "kubectl", lambda *_args: "1 1")

    with pytest.raises(errors.ClusterError, match=r"(?s)one nvidia.com/gpu each.* has 2\..*kubectl patch node NAME"):
        current.CurrentCluster("any").check()


def test_a_current_cluster_that_does_not_answer_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(_self: Any, *_args: str) -> str:
        raise errors.ClusterError("connection refused")

    monkeypatch.setenv("KUBECONFIG", str(tmp_path))
    monkeypatch.setattr(current.CurrentCluster, "kubectl", refuse)

    with pytest.raises(errors.ClusterError, match=r"(?s)KUBECONFIG=FILE.*use-context.*connection refused"):
        current.CurrentCluster.up("any", nodes=3, gpus=2)


def test_without_kind_it_is_told_where_it_is_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None if program == "kind" else f"/bin/{program}")

    with pytest.raises(errors.ClusterError, match=r"needs kind.*https://kind.sigs.k8s.io"):
        kind.KindCluster.up("any", nodes=3, gpus=2)


def test_a_machine_without_kubectl_and_go_is_told_to_install_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)

    with pytest.raises(errors.ClusterError, match="kubectl is not installed, and neither is Go"):
        clusters._program("kubectl")


def test_envtests_programs_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "etcd").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setattr(tools, "_found", {})
    monkeypatch.setattr(tools, "_cached", lambda name: Path("/cache") / name)

    assert tools.path("etcd") == tmp_path / "etcd"
    assert tools.path("kubelet") == Path("/cache/kubelet")


def test_the_control_planes_programs_are_built_before_all_others() -> None:
    order = list(tools.PROGRAMS)

    assert max(order.index(name) for name in tools.CONTROL_PLANE) < min(order.index(name) for name in tools.NODE)


def test_a_changed_pin_gives_other_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "helm").mkdir()
    pin = tmp_path / "helm" / "go.mod"
    pin.write_text("module one\n")
    monkeypatch.setattr(tools, "SOURCES", tmp_path)
    monkeypatch.setattr(tools, "_go_version", lambda folder: "go1.26")

    before = tools._key("helm")
    assert tools._key("helm") == before
    pin.write_text("module two\n")

    assert tools._key("helm") != before
