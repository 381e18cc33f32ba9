"""A training image's install: the wheel alone, in a clean environment, without the operator and what it needs."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the wheel's own files and nothing else, as `pip install --no-deps .` would lay them."""
    target = tmp_path_factory.mktemp("site")
    command = ["uv", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(target), "."]
    subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=True)
    return target


def run(site: pathlib.Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run *code* with the installed wheel in front, from a folder that is not the repository."""
    path = {"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, env=path, cwd=site, capture_output=True, text=True, check=False)


def test_the_wheel_holds_the_rendezvous_and_not_the_operator(site: pathlib.Path) -> None:
    packages = {path.parent.relative_to(site).parts[0] for path in site.rglob("*.py")}

    assert packages == {"elasticjob_rendezvous"}


def test_the_wheels_requirements_without_extras_name_no_part_of_the_operator(site: pathlib.Path) -> None:
    done = run(site, "import importlib.metadata as m; print([r for r in m.requires('elasticjob') if 'extra' not in r])")

    assert done.returncode == 0, done.stderr
    assert "kubernetes" in done.stdout
    assert "kopf" not in done.stdout


def test_the_rendezvous_works_where_the_operators_modules_and_kopf_are_missing(site: pathlib.Path) -> None:
    hide = "import sys; sys.modules['kopf'] = sys.modules['elasticjob_operator'] = None;"

    done = run(site, hide + "import elasticjob_rendezvous as e; print(e.get_handler()); print(e.__file__)")

    assert done.returncode == 0, done.stderr
    assert str(site) in done.stdout


def test_the_command_says_in_one_line_that_its_simulator_is_not_there(site: pathlib.Path) -> None:
    hide = "import sys; sys.modules['elasticjob_operator'] = None; sys.argv = ['elasticjob', 'simulate'];"

    done = run(site, hide + f"exec(open({str(site / 'bin/elasticjob')!r}).read())")

    assert done.returncode == 2
    assert done.stderr.startswith("elasticjob: the simulator is the operator's, which is not installed here")
    assert done.stderr.count("\n") == 1


def test_with_the_operators_code_beside_it_the_command_simulates(site: pathlib.Path) -> None:
    path = f"{site}:{ROOT / 'operator'}"
    trace = ROOT / "examples/simulate/trace.csv"
    command = [sys.executable, "-P", str(site / "bin/elasticjob"), "simulate", str(trace), "--cluster", "4x4"]

    done = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "ours" in done.stdout


def test_torch_finds_the_backend_through_the_entry_point(site: pathlib.Path) -> None:
    code = (
        "from torch.distributed.elastic.rendezvous import rendezvous_handler_registry as r; print(sorted(r._registry))"
    )

    done = run(site, code)

    assert done.returncode == 0, done.stderr
    assert "'kubernetes', 'kubernetes-dynamic'" in done.stdout
