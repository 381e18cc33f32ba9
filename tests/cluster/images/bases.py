"""Base images made of Debian packages, for machines that can reach a Debian mirror but no image registry.

The mirror is the host's own, asked of apt at run time: which one that is belongs to the machine, not to this project.
"""

from dataclasses import dataclass

from cluster import caching, errors, progress, running
from cluster.images import layouts

SUITE = "trixie"
BUILD_SECONDS = 1800
# Nobody reads manuals in a container.
_LEAN = ("doc", "man", "info", "locale")
_ENVIRONMENT = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"]


@dataclass(frozen=True)
class Base:
    """A minimal Debian with a few packages more."""

    name: str
    packages: tuple[str, ...]

    @property
    def tag(self) -> str:
        """The base's tag in the store."""
        return caching.key(["base", SUITE, *self._options()])

    def ensure(self) -> str:
        """Have the base in the store, and return its tag there."""
        store = layouts.store()
        with caching.lock(store.path / f".{self.tag}.lock"):
            if not store.find(self.tag):
                self._make(store)
        return self.tag

    def _make(self, store: layouts.Layout) -> None:
        layer = store.path / f".{self.tag}.tar"
        with progress.step(f"making the {self.name} base image from Debian packages (a minute or two)"):
            running.run("mmdebstrap", *self._options(), SUITE, layer, mirror(), seconds=BUILD_SECONDS)
            store.add(self.tag, layer=layer, config={"Env": _ENVIRONMENT, "Cmd": ["/bin/bash"]})

    def _options(self) -> list[str]:
        lean = [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in _LEAN]
        return ["--quiet", "--variant=minbase", *lean, f"--include={','.join(self.packages)}"]


TRAINER = Base("trainer", ("ca-certificates", "python3", "python3-venv", "python3-torch"))
OPERATOR = Base("operator", ("ca-certificates", "python3", "python3-venv"))


def mirror() -> str:
    """The Debian mirror that this machine's apt uses."""
    listing = running.run("apt-get", "indextargets", "--format", "$(LABEL)|$(REPO_URI)", "Created-By: Packages")
    if found := first_mirror(listing):
        return found
    raise errors.ClusterError(
        "apt knows no Debian mirror to make base images from: is there a Debian line in its sources?"
    )


def first_mirror(listing: str) -> str | None:
    """The first mirror of Debian proper among lines of label and address."""
    pairs = (line.partition("|") for line in listing.splitlines())
    return next((address for label, _, address in pairs if label == "Debian"), None)
