"""A kind cluster, where Docker and kind are installed: the same images, built by Docker from the same Dockerfiles."""

import json
import shutil
from pathlib import Path

import yaml

from cluster import caching, clusters, errors, progress, running, storage
from cluster.images import building

UP_SECONDS = 600
BUILD_SECONDS = 3600
STORAGE = "/elasticjob-shared"


class KindCluster(clusters.Cluster):
    """A cluster of containers; kind's own names get a prefix, so that nobody else's cluster is touched."""

    @classmethod
    def up(cls, name: str, *, nodes: int, gpus: int) -> "KindCluster":
        """Create the cluster, build the images and load them."""
        for program in ("docker", "kind"):
            if shutil.which(program) is None:
                raise errors.ClusterError(
                    f"CLUSTER=kind needs {program}, which is not installed: see https://kind.sigs.k8s.io, or take "
                    "CLUSTER=current, or on Debian as root no CLUSTER at all"
                )
        cluster = cls(name)
        cluster.down()
        cluster._shared.mkdir(parents=True)
        config = yaml.safe_dump(configuration(nodes, str(cluster._shared)))
        with progress.step(f"creating kind cluster {cluster._kind_name} with {nodes} nodes"):
            cluster._kind("create", "cluster", "--wait=5m", "--config=-", input=config)
        for recipe in building.recipes():
            cluster.load_image(recipe.reference)
        cluster._pretend_gpus(gpus)
        return cluster

    @classmethod
    def attach(cls, name: str) -> "KindCluster":
        """The cluster of this name, if kind knows it."""
        cluster = cls(name)
        if cluster._kind_name not in running.run("kind", "get", "clusters").split():
            raise errors.ClusterError(f"kind knows no cluster {cluster._kind_name}")
        return cluster

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig that kind wrote."""
        return self._folder / "kubeconfig"

    def load_image(self, reference: str) -> None:
        """Build an image with Docker, and load it into every node."""
        recipe = building.recipe(reference)
        with progress.step(f"building {reference} and loading it"):
            for command in recipe.docker_builds():
                running.run(*command, seconds=BUILD_SECONDS, cwd=building.REPOSITORY)
            self._kind("load", "docker-image", reference)

    def check(self) -> None:
        """Nothing: `up` brings everything along."""

    def shared_storage(self) -> None:
        """Have empty volumes on the folder that is mounted into every node."""
        storage.provide(self, self._shared, seen_as=STORAGE)

    @classmethod
    def stop(cls, name: str) -> None:
        """Delete the cluster and its folder."""
        cluster = cls(name)
        cluster._kind("delete", "cluster")
        caching.remove(cluster._folder)

    @property
    def _kind_name(self) -> str:
        return f"elasticjob-{self.name}"

    @property
    def _folder(self) -> Path:
        return caching.root() / "kind" / self.name

    @property
    def _shared(self) -> Path:
        return self._folder / "shared"

    def _kind(self, *command: str, input: str | None = None) -> None:
        where = () if command[0] == "load" else (f"--kubeconfig={self.kubeconfig}",)
        running.run("kind", *command, f"--name={self._kind_name}", *where, input=input, seconds=UP_SECONDS)

    def _pretend_gpus(self, count: int) -> None:
        claim = {"nvidia.com/gpu": str(count)}
        change = json.dumps({"status": {"capacity": claim, "allocatable": claim}})
        workers = "--selector=!node-role.kubernetes.io/control-plane"
        for node in self.kubectl("get", "nodes", workers, "--output=name").split():
            self.kubectl("patch", node, "--subresource=status", "--type=merge", f"--patch={change}")


def configuration(nodes: int, shared: str) -> dict[str, object]:
    """kind's configuration: a control plane and the nodes, each with the shared folder."""
    mount = {"hostPath": shared, "containerPath": STORAGE}
    roles = ["control-plane", *["worker"] * nodes]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": role, "extraMounts": [mount]} for role in roles],
    }
