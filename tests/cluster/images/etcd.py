"""An etcd with the v2 API, for jobs whose rendezvous needs one; laid out as the public images are."""

from cluster.images import layouts, programs

NAME = "docker.io/elasticjob/etcd:3.5"
FOLDER = "usr/local/bin"


def image() -> layouts.Image:
    """The image; the program is built if the cache does not have it."""
    config = {"Entrypoint": [f"/{FOLDER}/etcd"], "Env": [f"PATH=/{FOLDER}"]}
    return programs.image(NAME, "etcd-v2", path=f"{FOLDER}/etcd", config=config)
