"""The layout's rules that no linter knows: what shadows what, what the base install may hold, who imports what."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import tomllib

ROOT = pathlib.Path(__file__).parents[2]


def test_source_roots_hold_one_package_each_and_shadow_nothing() -> None:
    assert [p.name for p in (ROOT / "operator").iterdir() if p.name != "__pycache__"] == ["elasticjob_operator"]
    assert [p.name for p in (ROOT / "rendezvous").iterdir() if p.name != "__pycache__"] == ["elasticjob_rendezvous"]


def test_the_standard_librarys_operator_is_found_from_the_repository_root() -> None:
    code = "import operator, sys; sys.exit(0 if hasattr(operator, 'add') else 1)"

    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_the_base_install_declares_the_kubernetes_client_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert [d.split(">")[0] for d in project["dependencies"]] == ["kubernetes"]
    assert any(d.startswith("kopf") for d in project["optional-dependencies"]["operator"])


def test_importing_the_rendezvous_loads_neither_torch_nor_a_client_nor_the_operator() -> None:
    code = (
        "import sys, elasticjob_rendezvous as e; e.get_handler;"
        "heavy = {'torch', 'kubernetes', 'kopf', 'aiohttp', 'elasticjob_operator'} & set(sys.modules);"
        "sys.exit(f'loaded at import: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_no_dependency_is_pinned_in_two_ways() -> None:
    lines = (ROOT / "requirements/dev.txt").read_text().splitlines()
    locked = dict(line.split(" ")[0].split("==") for line in lines if "==" in line and not line.startswith(" "))
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["dev"]
    exact = dict(w.split("==") for w in wanted if "==" in w)

    assert {name: locked[name.lower()] for name in exact} == exact
    assert f"UV     := {exact['uv']}" in (ROOT / "Makefile").read_text()
