"""The sandbox image of every pod: the `pause` program and nothing else."""

import tarfile

from cluster import caching, tools
from cluster.images import layouts

NAME = "docker.io/elasticjob/pause:1"


def image() -> layouts.Image:
    """The image; made in a moment if the store does not have it."""
    program = tools.path("pause")
    tag = caching.key(["pause", program.read_bytes()])
    store = layouts.store()
    if manifest := store.find(tag):
        return layouts.Image(NAME, manifest)
    layer = store.path / f".{tag}.tar"
    layer.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(layer, "w") as archive:
        archive.add(program, arcname="pause", filter=_anonymous)
    config = {"Entrypoint": ["/pause"], "User": "65535:65535"}
    return layouts.Image(NAME, store.add(tag, layer=layer, config=config))


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Neither whose file it was nor when it was made belongs into an image."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755
    return entry
