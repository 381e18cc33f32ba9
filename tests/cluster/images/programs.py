"""Images of one program, built here, and nothing else in them."""

import tarfile
from typing import Any

from cluster import caching, tools
from cluster.images import layouts


def image(reference: str, program: str, *, path: str, config: dict[str, Any]) -> layouts.Image:
    """The image, with the program at *path*; made in a moment if the store does not have it."""
    built = tools.path(program)
    tag = caching.key([program, path, built.read_bytes()])
    store = layouts.store()
    if manifest := store.find(tag):
        return layouts.Image(reference, manifest)
    layer = store.path / f".{tag}.tar"
    layer.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(layer, "w") as archive:
        archive.add(built, arcname=path, filter=_anonymous)
    return layouts.Image(reference, store.add(tag, layer=layer, config=config))


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Neither whose file it was nor when it was made belongs into an image."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755
    return entry
