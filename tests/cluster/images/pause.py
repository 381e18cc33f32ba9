"""The sandbox image of every pod: the `pause` program and nothing else."""

from cluster.images import layouts, programs

NAME = "docker.io/elasticjob/pause:1"


def image() -> layouts.Image:
    """The image; made in a moment if the store does not have it."""
    return programs.image(NAME, "pause", path="pause", config={"Entrypoint": ["/pause"], "User": "65535:65535"})
