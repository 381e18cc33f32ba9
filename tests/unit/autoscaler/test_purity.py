"""The allocator asks nobody: no client, no clock, no dice. (The command line may print; it decides nothing.)"""

from __future__ import annotations

import ast
import pathlib

import elasticjob_operator.autoscaler as package

FORBIDDEN = {"kopf", "kubernetes", "aiohttp", "asyncio", "time", "datetime", "random", "threading", "socket", "os"}


def imported(path: pathlib.Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def test_it_imports_nothing_that_could_tell_it_more_than_its_snapshot() -> None:
    folder = pathlib.Path(package.__file__).parent
    found = {path.name: imported(path) & FORBIDDEN for path in folder.rglob("*.py")}

    assert not {name: names for name, names in found.items() if names}
    assert len(found) > 20
