"""The image store, the hashes that decide whether something is built, and what is lent to a build."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from cluster import errors, running
from cluster.images import bases, building, layouts, pip_settings


@pytest.fixture
def store(tmp_path: Path) -> layouts.Layout:
    return layouts.Layout(tmp_path / "images")


def added(store: layouts.Layout, tag: str, content: bytes = b"layer") -> layouts.Image:
    layer = store.path.with_name(f"{tag}.tar")
    layer.write_bytes(content)
    return layouts.Image(f"docker.io/test/{tag}:1", store.add(tag, layer=layer, config={"User": "1"}))


def names(archive: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return opened.getnames()


def streamed(store: layouts.Layout, *images: layouts.Image, known: set[str] | None = None) -> bytes:
    output = io.BytesIO()
    store.stream(images, output, known=known or set())
    return output.getvalue()


def test_an_image_is_found_by_its_tag(store: layouts.Layout) -> None:
    image = added(store, "one")

    found = store.find("one")

    assert found is not None
    assert found["digest"] == image.digest
    assert store.find("two") is None


def test_a_store_that_was_never_used_has_nothing(store: layouts.Layout) -> None:
    assert store.find("one") is None


def test_an_image_that_lacks_a_blob_is_not_found_and_so_is_made_again(store: layouts.Layout) -> None:
    image = added(store, "one")
    layer = store.blobs(image.manifest)[-1]
    (store.path / "blobs" / layer["digest"].replace(":", "/")).unlink()

    assert store.find("one") is None
    added(store, "one")
    assert store.find("one") is not None


def test_a_tag_that_is_used_again_names_the_new_image(store: layouts.Layout) -> None:
    added(store, "one", b"old")
    new = added(store, "one", b"new")

    found = store.find("one")

    assert found is not None
    assert found["digest"] == new.digest


def test_the_same_content_is_kept_once(store: layouts.Layout) -> None:
    first, second = added(store, "one"), added(store, "two")

    assert first.digest == second.digest


def test_a_stream_has_what_a_node_needs_to_know_an_image_by_name(store: layouts.Layout) -> None:
    image = added(store, "one")
    archive = streamed(store, image)

    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        index = json.load(opened.extractfile("index.json") or io.BytesIO())
    assert index["manifests"][0]["annotations"]["io.containerd.image.name"] == "docker.io/test/one:1"
    assert len([name for name in names(archive) if name.startswith("blobs/")]) == 3


def test_a_stream_leaves_out_what_the_receiver_has(store: layouts.Layout) -> None:
    image = added(store, "one")
    layer = store.blobs(image.manifest)[-1]["digest"]

    archive = streamed(store, image, known={layer})

    assert f"blobs/{layer.replace(':', '/')}" not in names(archive)


def test_images_that_share_a_layer_are_streamed_with_one_copy(store: layouts.Layout) -> None:
    archive = streamed(store, added(store, "one"), added(store, "two"))

    assert len(names(archive)) == len(set(names(archive)))


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(building, "REPOSITORY", tmp_path)
    for file in (
        "images/trainer/Dockerfile",
        "images/trainer/torchrun",
        "pyproject.toml",
        "LICENSE",
        "rendezvous/package/module.py",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(file)
    return tmp_path


@pytest.mark.parametrize("file", ["images/trainer/Dockerfile", "pyproject.toml", "rendezvous/package/module.py"])
def test_a_changed_source_is_built_anew(repository: Path, file: str) -> None:
    before = building.TRAINER.tag
    (repository / file).write_text("changed")

    assert building.TRAINER.tag != before


def test_a_new_file_is_built_anew(repository: Path) -> None:
    before = building.TRAINER.tag
    (repository / "rendezvous/package/more.py").touch()

    assert building.TRAINER.tag != before


def test_what_does_not_reach_the_image_is_no_reason_to_build(repository: Path) -> None:
    before = building.TRAINER.tag
    (repository / "tests").mkdir()
    (repository / "rendezvous/package/__pycache__").mkdir()
    (repository / "rendezvous/package/__pycache__/module.pyc").touch()
    (repository / "pyproject.toml").touch()

    assert building.TRAINER.tag == before


def test_a_changed_trainer_changes_what_is_built_on_it(repository: Path) -> None:
    before = building.DIGITS.tag
    (repository / "rendezvous/package/module.py").write_text("changed")

    assert building.DIGITS.tag != before


def test_an_image_is_named_after_what_was_built_though_it_was_edited_meanwhile(
    repository: Path, monkeypatch: pytest.MonkeyPatch, store: layouts.Layout
) -> None:
    built: list[tuple[str, str]] = []

    def edit_meanwhile(base: bases.Base) -> str:
        (repository / "rendezvous/package/module.py").write_text("edited")
        return base.tag

    def build(recipe: building.Recipe, base: str, sources: Path, tag: str) -> None:
        built.append((tag, (sources / "rendezvous/package/module.py").read_text()))

    monkeypatch.setattr(layouts, "store", lambda: store)
    monkeypatch.setattr(bases.Base, "ensure", edit_meanwhile)
    monkeypatch.setattr(building.Recipe, "_build", build)
    before = building.TRAINER.tag

    tag = building.TRAINER.ensure()

    assert built == [(tag, "edited")]
    assert tag == building.TRAINER.tag != before


def test_an_example_that_is_not_there_is_not_built(repository: Path) -> None:
    assert building.DIGITS not in building.recipes()
    (repository / "examples/digits").mkdir(parents=True)
    (repository / "examples/digits/Dockerfile").touch()
    assert building.DIGITS in building.recipes()


def test_an_unknown_image_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(errors.ClusterError, match=building.TRAINER.reference):
        building.recipe("docker.io/somebody/else:1")


def test_docker_builds_the_example_after_what_it_is_based_on() -> None:
    built = [command[3] for command in building.DIGITS.docker_builds()]

    assert built == [f"--tag={building.TRAINER.reference}", f"--tag={building.DIGITS.reference}"]


def test_the_first_debian_mirror_is_taken_and_no_other_archive() -> None:
    listing = (
        "NodeSource|http://node/\nDebian-Security|http://security/\nDebian|http://mirror/debian/\nDebian|http://b/\n"
    )

    assert bases.first_mirror(listing) == "http://mirror/debian/"
    assert bases.first_mirror("NodeSource|http://node/\n") is None


def test_pips_settings_are_read_and_the_environment_wins() -> None:
    listing = (
        "global.index-url='https://a/simple'\nglobal.timeout='9'\n:env:.timeout='180'\ninstall.no-deps='x=y'\nnoise\n"
    )

    assert pip_settings.parsed(listing) == {"index-url": "https://a/simple", "timeout": "180", "no-deps": "x=y"}


def test_what_a_setting_names_is_lent_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificate = tmp_path / "certificate"
    certificate.touch()
    listing = f"global.cert='{certificate}'\nglobal.find-links='/not/there'\n"
    monkeypatch.setattr(running, "run", lambda *command: listing)

    mounts = pip_settings.mounts(tmp_path / "pip.conf")

    assert mounts == [f"{tmp_path}/pip.conf:/etc/pip.conf:ro", f"{certificate}:{certificate}:ro"]
    assert f"cert = {certificate}" in (tmp_path / "pip.conf").read_text()
