"""The image store: one OCI image layout in the cache, whose blobs all images share.

An image is found by a tag, which is a hash of all that went into it. Its name in the cluster is given only when it is
streamed to a node: the same content may go by another name.
"""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from cluster import caching

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
REF = "org.opencontainers.image.ref.name"
_CHUNK = 1 << 20

Descriptor = dict[str, Any]


@dataclass(frozen=True)
class Image:
    """An image in the store: the name that pods use, and its manifest's descriptor."""

    name: str
    manifest: Descriptor

    @property
    def digest(self) -> str:
        """What identifies the content."""
        return str(self.manifest["digest"])


@dataclass(frozen=True)
class Layout:
    """An OCI image layout on disk."""

    path: Path

    def find(self, tag: str) -> Descriptor | None:
        """The manifest under a tag; None when there is none, or a blob of it is missing."""
        tagged = (one for one in self._index()["manifests"] if one.get("annotations", {}).get(REF) == tag)
        manifest = next(tagged, None)
        return manifest if manifest and self._complete(manifest) else None

    def add(self, tag: str, *, layer: Path, config: dict[str, Any]) -> Descriptor:
        """Add an image of one layer, an uncompressed tar file, which is moved into the store."""
        moved = self._add_file(layer)
        details: dict[str, Any] = {"architecture": _architecture(), "os": "linux", "config": config}
        # Buildah refuses to build on an image whose history does not account for each of its layers.
        details["history"] = [{"created_by": "elasticjob"}]
        details["rootfs"] = {"type": "layers", "diff_ids": [moved["digest"]]}
        return self._add_manifest(tag, details, [moved])

    def extend(self, tag: str, base: Descriptor, *, layer: Path) -> Descriptor:
        """Add an image that is the *base* and one layer on top of it, as for `add`."""
        parts = json.loads(self._blob(base).read_bytes())
        details = json.loads(self._blob(parts["config"]).read_bytes())
        moved = self._add_file(layer)
        details["history"].append({"created_by": "elasticjob"})
        details["rootfs"]["diff_ids"].append(moved["digest"])
        return self._add_manifest(tag, details, [*parts["layers"], moved])

    def blobs(self, manifest: Descriptor) -> list[Descriptor]:
        """Everything that an image consists of, its manifest first."""
        parts = json.loads(self._blob(manifest).read_bytes())
        return [manifest, parts["config"], *parts["layers"]]

    def stream(self, images: Collection[Image], output: IO[bytes], *, known: Collection[str] = ()) -> None:
        """Write the images as one archive, leaving out blobs that the receiver is known to have."""
        index = {"schemaVersion": 2, "manifests": [_named(image) for image in images]}
        blobs = {blob["digest"]: blob for image in images for blob in self.blobs(image.manifest)}
        with tarfile.open(fileobj=output, mode="w|", bufsize=_CHUNK) as archive:
            _write(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
            _write(archive, "index.json", json.dumps(index).encode())
            for digest in sorted(blobs.keys() - set(known)):
                archive.add(self._blob(blobs[digest]), arcname=f"blobs/{digest.replace(':', '/')}")

    def _index(self) -> dict[str, Any]:
        file = self.path / "index.json"
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"schemaVersion": 2, "manifests": []}
        return found

    def _tag(self, tag: str, manifest: Descriptor) -> None:
        with caching.lock(self.path / ".lock"):
            index = self._index()
            others = [one for one in index["manifests"] if one.get("annotations", {}).get(REF) != tag]
            index["manifests"] = [*others, {**manifest, "annotations": {REF: tag}}]
            _replace(self.path / "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
            _replace(self.path / "index.json", json.dumps(index).encode())

    def _complete(self, manifest: Descriptor) -> bool:
        return self._blob(manifest).exists() and all(self._blob(blob).exists() for blob in self.blobs(manifest))

    def _blob(self, descriptor: Descriptor) -> Path:
        return self.path / "blobs" / str(descriptor["digest"]).replace(":", "/")

    def _add_manifest(self, tag: str, details: dict[str, Any], layers: list[Descriptor]) -> Descriptor:
        config = self._add_json(CONFIG, details)
        manifest = self._add_json(
            MANIFEST, {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
        )
        self._tag(tag, manifest)
        return manifest

    def _add_json(self, kind: str, value: object) -> Descriptor:
        data = json.dumps(value, sort_keys=True).encode()
        descriptor = {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}
        _replace(self._blob(descriptor), data)
        return descriptor

    def _add_file(self, file: Path) -> Descriptor:
        digest = hashlib.sha256()
        with file.open("rb") as source:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
        descriptor = {"mediaType": LAYER, "digest": f"sha256:{digest.hexdigest()}", "size": file.stat().st_size}
        self._blob(descriptor).parent.mkdir(parents=True, exist_ok=True)
        file.rename(self._blob(descriptor))
        return descriptor


def store() -> Layout:
    """The user's image store."""
    return Layout(caching.root() / "images")


def _named(image: Image) -> Descriptor:
    return {**image.manifest, "annotations": {"io.containerd.image.name": image.name, REF: image.name}}


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def _write(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _replace(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.draft")
    draft.write_bytes(data)
    draft.rename(file)
