"""The pages for people: their links lead somewhere, and what they tell to run is there, from a clean clone."""

import importlib.util
import itertools
import pathlib
import re
import runpy
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from elasticjob_operator.autoscaler import __main__ as simulator

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/cluster/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
FOLDERS = ("charts", "crds", "docs", "examples", "images", "operator", "rendezvous", "tests")

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def commands(text: str) -> Iterator[str]:
    """What a page tells to type: lines of its consoles, joined where they go on."""
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        yield from (line[2:].partition(" #")[0] for line in block.replace("\\\n", " ").splitlines() if line[:2] == "$ ")


@pages
def test_links_lead_to_files_that_are_there(page: pathlib.Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []


@pages
def test_what_make_is_asked_for_is_a_target(page: pathlib.Path) -> None:
    asked = re.findall(r"(?:`|\$ |[a-z] )make ((?:[a-z][a-z-]*[a-z] ?)+)(?=`| +#|\n)", page.read_text())

    assert {name for names in asked for name in names.split()} <= TARGETS


@pages
def test_files_that_are_named_are_there(page: pathlib.Path) -> None:
    named = re.findall(rf"[`( ]((?:{'|'.join(FOLDERS)})/[\w./-]+\w)", page.read_text())

    assert [name for name in named if not (ROOT / name).exists() and not (page.parent / name).exists()] == []


@pages
def test_commands_name_files_and_modules_that_are_there(page: pathlib.Path) -> None:
    for command in commands(page.read_text()):
        words = command.split()
        made = {after for before, after in itertools.pairwise(words) if before in ("-t", "-o", "--svg")}
        files = [w for w in words if re.fullmatch(r"[\w./-]+\.(yaml|csv|py|md)|[\w./-]+/Dockerfile", w)]
        assert [name for name in files if name not in made and not (ROOT / name).exists()] == [], command
        if "-m" in words:
            assert words[0] == ".venv/bin/python", f"{command}: no other python has what it needs"
            assert importlib.util.find_spec(words[words.index("-m") + 1]), command


@pages
def test_tests_that_are_named_are_there(page: pathlib.Path) -> None:
    for name, path in re.findall(r"\[`(test_\w+)`\]\((\S+?)\)", page.read_text()):
        assert f"def {name}(" in (page.parent / path).read_text(), name


@pages
def test_simulations_that_are_told_run(
    page: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in FOLDERS:
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    for command in commands(page.read_text()):
        if command.startswith(".venv/bin/elasticjob "):
            assert simulator.main(shlex.split(command)[1:]) == 0, command
            assert "not finished" not in capsys.readouterr().out, command
            assert "--svg" not in command or pathlib.Path("out.svg").exists()


def test_every_field_of_a_job_is_on_a_page() -> None:
    crd = yaml.safe_load((ROOT / "crds/elasticjobs.yaml").read_text())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    told = "".join((ROOT / "docs" / name).read_text() for name in ("elasticjob.md", "backends.md"))

    assert [name for name in fields(spec) if not re.search(rf"\b{name}\b", told)] == []


def fields(schema: dict[str, Any]) -> Iterator[str]:
    """Names of a job's own fields; a pod's are Kubernetes'."""
    for name, field in (schema.get("properties") or (schema.get("items") or {}).get("properties") or {}).items():
        yield name
        if name != "template":
            yield from fields(field)


def test_a_command_that_goes_on_is_read_whole() -> None:
    text = "```console\n$ helm install x \\\n    --set a=b   # why\nanswer\n$ make demo\n```"

    assert [" ".join(command.split()) for command in commands(text)] == ["helm install x --set a=b", "make demo"]


def test_the_training_script_to_copy_from_trains_and_goes_on_where_it_was(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [script] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/training.md").read_text(), re.DOTALL)
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    for name, value in {**alone, "CHECKPOINT": str(tmp_path / "checkpoint.pt")}.items():
        monkeypatch.setenv(name, value)

    first = runpy.run_path(str(written(tmp_path, script.replace("EPOCHS = 20", "EPOCHS = 2"))))
    second = runpy.run_path(str(written(tmp_path, script.replace("EPOCHS = 20", "EPOCHS = 3"))))

    assert (first["step"], first["samples"]) == (32, 2000)
    assert (second["step"], second["samples"]) == (48, 3000)
    assert second["loss"] < first["loss"]


def written(folder: pathlib.Path, script: str) -> pathlib.Path:
    path = folder / "train.py"
    path.write_text(script)
    return path
