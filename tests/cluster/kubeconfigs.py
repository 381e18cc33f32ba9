"""Kubeconfig files with everything inside, so that a copy of one works wherever the API server can be reached."""

import base64
from pathlib import Path

import yaml

from cluster import pki


def write(target: Path, *, name: str, url: str, authority: pki.Authority, pair: pki.Pair) -> Path:
    """Write the kubeconfig of one user of the cluster; only the owner may read it."""
    target.touch(mode=0o600)
    target.write_text(yaml.safe_dump(render(name=name, url=url, authority=authority, pair=pair), sort_keys=False))
    return target


def render(*, name: str, url: str, authority: pki.Authority, pair: pki.Pair) -> dict[str, object]:
    """The kubeconfig as a plain value."""
    cluster = {"server": url, "certificate-authority-data": _encoded(authority.certificate)}
    user = {"client-certificate-data": _encoded(pair.certificate), "client-key-data": _encoded(pair.key)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def _encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
