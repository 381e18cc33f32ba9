"""An image of the operator as a later version might be: it writes a field into the round's record that is new."""

from __future__ import annotations

import io
import tarfile

from cluster import caching
from cluster.images import building, layouts

TAG = "later"
FIELD = "later"
PATCH = f"""
import json
from elasticjob_rendezvous.round import record
known = record.dump
record.dump = lambda one: json.dumps({{**json.loads(known(one)), {FIELD!r}: 1}}, separators=(",", ":"))
"""
"""Python runs a `sitecustomize.py` that it finds before it runs a program."""


def image() -> layouts.Image:
    """The image: this repository's, and the patch on top."""
    name, store, base = f"{building.REGISTRY}/operator:{TAG}", layouts.store(), building.OPERATOR.image().manifest
    tag = caching.key([str(base["digest"]), PATCH])
    if manifest := store.find(tag):
        return layouts.Image(name, manifest)
    layer, data = store.path / f".{tag}.tar", PATCH.encode()
    with tarfile.open(layer, "w") as archive:
        entry = tarfile.TarInfo("app/sitecustomize.py")
        entry.size, entry.mode = len(data), 0o644
        archive.addfile(entry, io.BytesIO(data))
    return layouts.Image(name, store.extend(tag, base, layer=layer))


def writes(round_record: str) -> bool:
    """Whether such an operator has written this record: agents write what they know."""
    return f'"{FIELD}":1' in round_record
