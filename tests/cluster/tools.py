"""The cluster's programs, built from the Go modules pinned under `tools/` and kept in the cache.

A program is found by its name alone: `path("kubectl")`. The cache key covers everything that goes into the build, so a
changed pin gives new programs and an unchanged one builds nothing. `KUBEBUILDER_ASSETS`, where set, comes first, as
envtest has it.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from cluster import caching, errors, progress, running

SOURCES = Path(__file__).with_name("tools")
KUBERNETES_VERSION = "v1.36.3"
HELM_VERSION = "v4.3.2"
BUILD_SECONDS = 3600

# Without these kubectl cannot parse the server's version, and Helm refuses charts that ask for a Kubernetes version.
_VERSION = "k8s.io/component-base/version"
_KUBERNETES_FLAGS = f"-X {_VERSION}.gitVersion={KUBERNETES_VERSION} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=36"
_HELM_FLAGS = f"-X helm.sh/helm/v4/internal/version.version={HELM_VERSION}"


@dataclass(frozen=True)
class Program:
    """One program: the module under `tools/` that pins it, its package, and the linker's extra flags."""

    module: str
    package: str
    flags: str = ""


def _kubernetes(name: str) -> Program:
    return Program("kubernetes", f"k8s.io/kubernetes/cmd/{name}", _KUBERNETES_FLAGS)


# In the order in which they are built: what a control plane needs first.
PROGRAMS = {
    "pause": Program("pause", "."),
    "etcd": Program("kubernetes", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": _kubernetes("kube-apiserver"),
    "kube-controller-manager": _kubernetes("kube-controller-manager"),
    "kube-scheduler": _kubernetes("kube-scheduler"),
    "kubectl": _kubernetes("kubectl"),
    "kubelet": _kubernetes("kubelet"),
    "kube-proxy": _kubernetes("kube-proxy"),
    "dns": Program("dns", "."),
    "policies": Program("policies", "."),
    "etcd-v2": Program("etcd", "go.etcd.io/etcd/server/v3"),
    "helm": Program("helm", "helm.sh/helm/v4/cmd/helm", _HELM_FLAGS),
}
CONTROL_PLANE = ("pause", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
NODE = ("kubelet", "kube-proxy", "dns")

# For whoever waits; a later build compiles only what the first has not.
NOTE = " (about 8 minutes on 2 cores the first time)"

_found: dict[str, Path] = {}


def path(name: str) -> Path:
    """Where the program is; it is built first if the cache does not have it."""
    if name not in _found:
        _found[name] = _asset(name) or _cached(name)
    return _found[name]


def ensure(*names: str) -> None:
    """Have the named programs, or all of them, at hand before anything is timed or started."""
    wanted = [name for name in PROGRAMS if (name in names or not names) and not _asset(name)]
    for module in dict.fromkeys(PROGRAMS[name].module for name in wanted):
        _have(module, [name for name in wanted if PROGRAMS[name].module == module])


def _asset(name: str) -> Path | None:
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    asset = Path(folder) / name if folder else None
    return asset if asset and asset.exists() else None


def _cached(name: str) -> Path:
    module = PROGRAMS[name].module
    _have(module, [name])
    return _folder(module) / name


def _folder(module: str) -> Path:
    return caching.root() / "bin" / _key(module)


def _have(module: str, names: list[str]) -> None:
    """Build what is missing of a module's programs, all at once: they share most of what is compiled."""
    folder = _folder(module)
    if all((folder / name).exists() for name in names):
        return
    with caching.lock(folder / ".lock"):
        if missing := [name for name in names if not (folder / name).exists()]:
            draft = folder / ".draft"
            caching.remove(draft)
            draft.mkdir()
            _build(module, missing, draft)
            for name in missing:
                (draft / _built(PROGRAMS[name])).rename(folder / name)


def _key(module: str) -> str:
    folder = SOURCES / module
    files = sorted(file for file in folder.iterdir() if file.name in ("go.mod", "go.sum") or file.suffix == ".go")
    flags = sorted({program.flags for program in PROGRAMS.values() if program.module == module})
    return caching.key([_go_version(folder), *flags, *(file.read_bytes() for file in files)])


def _go_version(folder: Path) -> str:
    try:
        return running.run("go", "env", "GOVERSION", cwd=folder).strip()
    except errors.ClusterError as error:
        raise errors.ClusterError(
            f"the local cluster's programs are built with Go 1.21 or later (https://go.dev/dl): {error}"
        ) from error


def _build(module: str, names: list[str], folder: Path) -> None:
    """Build programs of one module without cgo: they need no C compiler, and run on any Linux."""
    flags = " ".join(dict.fromkeys(PROGRAMS[name].flags for name in PROGRAMS if PROGRAMS[name].module == module))
    packages = [PROGRAMS[name].package for name in names]
    command = ["go", "build", "-trimpath", "-ldflags", f"-s -w {flags}".strip(), "-o", f"{folder}/", *packages]
    with progress.step(f"building {', '.join(names)} from source{NOTE if module == 'kubernetes' else ''}"):
        running.run(*command, cwd=SOURCES / module, env={"CGO_ENABLED": "0"}, seconds=BUILD_SECONDS)


def _built(program: Program) -> str:
    """How `go build` names the program: by its package's last part that is no version."""
    parts = [part for part in program.package.split("/") if not re.fullmatch(r"v\d+", part)]
    return program.module if program.package == "." else parts[-1]
