"""The cluster that the current kubeconfig points at: somebody else's, so it is taken as it is.

Its nodes must be able to get the project's images and have accelerators, and it must have shared storage of its own.
All that is looked at before anything is installed; for the images a pod is started that does nothing, and deleted.
"""

import functools
import json
import os
from pathlib import Path

from cluster import clusters, errors, progress, storage, waiting
from cluster.images import building

PULL_SECONDS = 900
"""For an image of some gigabytes."""

GPUS = 3
"""As many as the example has pods at its largest."""

CHECK = "elasticjob-image-check"
_IN_VAIN = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}


class CurrentCluster(clusters.Cluster):
    """An existing cluster."""

    @classmethod
    def up(cls, name: str, *, nodes: int, gpus: int) -> "CurrentCluster":  # noqa: ARG003 - they are what they are
        """Take the cluster as it is."""
        cluster = cls(name)
        try:
            found = cluster.kubectl("get", "nodes", "--output=name").split()
        except errors.ClusterError as error:
            raise errors.ClusterError(
                f"CLUSTER=current, but the cluster of {cluster.kubeconfig} can't be used; name another kubeconfig with "
                f"KUBECONFIG=FILE, or choose its context with kubectl config use-context:\n{error}"
            ) from error
        progress.say(f"  the current cluster has {len(found)} cluster node(s); it is taken as it is")
        return cluster

    @classmethod
    def attach(cls, name: str) -> "CurrentCluster":
        """The cluster, whatever it is called here."""
        return cls(name)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig in use."""
        named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
        file = Path(named) if named else Path.home() / ".kube" / "config"
        if not file.exists():
            raise errors.ClusterError(
                f"CLUSTER=current, but there is no kubeconfig {file}: name one (KUBECONFIG=FILE), or leave CLUSTER out"
            )
        return file

    def load_image(self, reference: str) -> None:
        """See that a node can get the image: how it comes there is the cluster's owner's affair."""
        self._remove_check()
        self.kubectl("apply", "--filename=-", input=json.dumps(_pod(reference)))
        try:
            with progress.step(f"looking whether the cluster has, or can pull, {reference}"):
                started = functools.partial(self._started, reference)
                waiting.until(f"a pod of {reference}", started, seconds=PULL_SECONDS, interval=1)
        finally:
            self._remove_check()

    def check(self) -> None:
        """See to accelerators for the example's pods, and to both images that run in the demo."""
        gpus = self.kubectl("get", "nodes", r"--output=jsonpath={.items[*].status.allocatable.nvidia\.com/gpu}").split()
        if sum(map(int, gpus)) < GPUS:
            raise errors.ClusterError(
                f"the example's {GPUS} pods ask for one nvidia.com/gpu each, and the current cluster has "
                f"{sum(map(int, gpus))}. Pretended ones do:\n    kubectl patch node NAME --subresource=status "
                f'--type=merge --patch=\'{{"status": {{"capacity": {{"nvidia.com/gpu": "{GPUS}"}}}}}}\''
            )
        for recipe in (building.OPERATOR, building.DIGITS):
            self.load_image(recipe.reference)

    def shared_storage(self) -> None:
        """Check that the storage class is there."""
        classes = self.kubectl("get", "storageclasses", "--output=name").split()
        if f"storageclass.storage.k8s.io/{storage.CLASS}" not in classes:
            raise errors.ClusterError(
                f"the current cluster has no storage class {storage.CLASS}, where the example keeps its checkpoints: "
                "make one of this name whose volumes can be written by several cluster nodes (ReadWriteMany: NFS, "
                "CephFS, Lustre, Filestore, EFS, ...)"
            )

    @classmethod
    def stop(cls, name: str) -> None:  # noqa: ARG003 - there is only one
        """Leave the cluster as it is."""
        progress.say("  the current cluster is not ours to take down")

    def _started(self, reference: str) -> bool:
        """Whether the image is there: its container has run. One that can't be had is told with what to do."""
        status = json.loads(self.kubectl("get", "pod", CHECK, "--output=json")).get("status", {})
        states = [one.get("state", {}) for one in status.get("containerStatuses", ())]
        waits: dict[str, str] = next((state["waiting"] for state in states if "waiting" in state), {})
        if waits.get("reason") in _IN_VAIN:
            builds = "\n    ".join(" ".join(command) for command in building.recipe(reference).docker_builds())
            raise errors.ClusterError(
                f"the current cluster can't get the image {reference}: {waits.get('message') or waits['reason']}\n"
                f"  Build it:\n    {builds}\n"
                "  and bring it to the cluster nodes under this name (minikube image load, k3s ctr images import, ctr "
                "--namespace k8s.io images import, or a registry that they take for docker.io)"
            )
        return any("running" in state or "terminated" in state for state in states)

    def _remove_check(self) -> None:
        self.kubectl("delete", "pod", CHECK, "--ignore-not-found", "--now")


def _pod(reference: str) -> dict[str, object]:
    """A pod that fits any namespace, and ends at once."""
    container = {
        "name": "check",
        "image": reference,
        "command": ["true"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"restartPolicy": "Never", "securityContext": security, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": CHECK}, "spec": spec}
