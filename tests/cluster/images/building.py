"""Building this repository's images with buildah, on bases of Debian packages.

An image's tag is a hash of all that goes into it, so unchanged sources build nothing, and a changed source rebuilds the
layers above it only. The same Dockerfiles build with Docker on public bases.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cluster import caching, errors, packages, progress, running
from cluster.images import bases, layouts, pip_settings

REPOSITORY = Path(__file__).parents[3]
REGISTRY = "docker.io/elasticjob"
BUILD_SECONDS = 1800
_TIME = 1_000_000_000
_SOURCES = ("pyproject.toml", "LICENSE")


@dataclass(frozen=True)
class Recipe:
    """One image: its Dockerfile, the files of the repository that it may copy, and what it is built on."""

    name: str
    dockerfile: str
    sources: tuple[str, ...]
    base: "bases.Base | Recipe"
    context: str = "."

    @property
    def reference(self) -> str:
        """The name that pods use."""
        return f"{REGISTRY}/{self.name}:dev"

    @property
    def tag(self) -> str:
        """A hash of everything that goes into the image, as it is now."""
        return self._tag(self.base.tag, REPOSITORY)

    def ensure(self) -> str:
        """Have the image in the store, and return its tag there."""
        tag, store = self.tag, layouts.store()
        if store.find(tag):
            return tag
        with (
            caching.lock(store.path / f".{self.name}.lock"),
            tempfile.TemporaryDirectory(prefix="elasticjob-") as folder,
        ):
            base, sources = self.base.ensure(), Path(folder, "sources")
            _stage(REPOSITORY, self._inputs(), sources)
            # Of what is built, not of what is in the repository by now: somebody may be editing it.
            tag = self._tag(base, sources)
            if not store.find(tag):
                with progress.step(f"building the {self.name} image"):
                    self._build(base, sources, tag)
        return tag

    def image(self) -> layouts.Image:
        """The image, built if need be."""
        tag = self.ensure()
        manifest = layouts.store().find(tag)
        if manifest is None:
            raise AssertionError(f"{self.name} was built as {tag} and is not in the store")
        return layouts.Image(self.reference, manifest)

    def docker_builds(self) -> list[list[str]]:
        """The commands that build the image with Docker, on the public base that its Dockerfile names."""
        own = ["docker", "build", f"--file={self.dockerfile}", f"--tag={self.reference}", self.context]
        return [*self.base.docker_builds(), own] if isinstance(self.base, Recipe) else [own]

    def _inputs(self) -> list[str]:
        return [self.dockerfile, *(str(Path(self.context, source)) for source in self.sources)]

    def _tag(self, base: str, root: Path) -> str:
        return caching.key([base, *_contents(root, self._inputs())])

    def _build(self, base: str, sources: Path, tag: str) -> None:
        store = layouts.store().path.name
        parent = buildah("pull", "--quiet", f"oci:{store}:{base}").split()[-1]
        volumes = [f"--volume={mount}" for mount in pip_settings.mounts(sources.with_name("pip.conf"))]
        where: tuple[str | Path, ...] = (
            f"--file={sources / self.dockerfile}",
            f"--tag={tag}",
            *volumes,
            sources / self.context,
        )
        buildah("build", "--isolation=chroot", "--layers", "--pull=false", f"--build-arg=BASE={parent}", *where)
        buildah("push", "--disable-compression", f"localhost/{tag}", f"oci:{store}:{tag}")


def buildah(*arguments: str | Path) -> str:
    """Run buildah on a storage of its own, in a mount namespace that takes its mounts along when it ends."""
    root = caching.root() / "buildah"
    storage = (f"--root={root}", "--runroot=/run/elasticjob-buildah", "--storage-driver=overlay")
    command = ("unshare", "--mount", "--propagation", "private", "buildah", *storage, *arguments)
    # It makes image names out of the layout's path, and not every path makes one: hence the short, relative one.
    return running.run(*command, seconds=BUILD_SECONDS, cwd=caching.root())


def _files(root: Path, sources: Iterable[str]) -> list[Path]:
    """The files that the sources, each a file or a folder, stand for."""
    found: set[Path] = set()
    for source in sources:
        path = root / source
        found.update([path] if path.is_file() else (file for file in path.rglob("*") if file.is_file()))
    return sorted(file for file in found if "__pycache__" not in file.parts)


def _contents(root: Path, sources: Iterable[str]) -> Iterator[str | bytes]:
    """Names, modes and contents, which is all of a file that reaches an image."""
    for file in _files(root, sources):
        yield f"{file.relative_to(root)} {file.stat().st_mode & 0o777:o}"
        yield file.read_bytes()


def _stage(root: Path, sources: Iterable[str], context: Path) -> None:
    """Copy the sources to a build context; with a fixed time, for a time is no reason to build again."""
    for file in _files(root, sources):
        target = context / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
        os.utime(target, (_TIME, _TIME))


_TORCHRUN = "images/trainer/torchrun"
TRAINER = Recipe("trainer", "images/trainer/Dockerfile", (*_SOURCES, "rendezvous", _TORCHRUN), bases.TRAINER)
OPERATOR = Recipe("operator", "images/operator/Dockerfile", (*_SOURCES, "operator", "rendezvous"), bases.OPERATOR)
DIGITS = Recipe("digits", "examples/digits/Dockerfile", (".",), TRAINER, context="examples/digits")


def recipes() -> list[Recipe]:
    """What can be built: the example's image only where the example is."""
    return [one for one in (TRAINER, OPERATOR, DIGITS) if (REPOSITORY / one.dockerfile).exists()]


def images() -> list[layouts.Image]:
    """All images of the repository, built if need be."""
    packages.ensure(packages.IMAGES)
    return [recipe.image() for recipe in recipes()]


def image(reference: str) -> layouts.Image:
    """One image by the name that pods use, built if need be."""
    packages.ensure(packages.IMAGES)
    return recipe(reference).image()


def recipe(reference: str) -> Recipe:
    """The recipe of an image by the name that pods use."""
    known = {one.reference: one for one in recipes()}
    if reference not in known:
        raise errors.ClusterError(f"{reference} is none of this repository's images: {', '.join(known)}")
    return known[reference]
