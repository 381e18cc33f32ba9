"""Every scenario of docs/rendezvous-scenarios.md is played by one test, and the table says which."""

from __future__ import annotations

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
NUMBERS = {
    *(1, 2, 3, 4, 6, 9, 10, 13, 14, 15, 16, 17, 19, 21, 22, 23, 24, 26, 27, 28, 29, 30, 33, 34, 35, 37, 39, 40, 41, 42),
    *(43, 46, 47, 48, 49, 52, 53, 54, 57, 58, 59, 60, 63, 65, 66, 67, 69, 70, 71),
}


def marked() -> list[tuple[int, str]]:
    """Number and name of every test that carries one."""
    found = []
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text()
        if "mark.scenario(" in text:
            functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
            found += [(number, each.name) for each in functions for number in _numbers(each)]
    return found


def _numbers(function: ast.FunctionDef) -> list[int]:
    marks = re.findall(r"pytest\.mark\.scenario\((\d+)\)", " ".join(map(ast.unparse, function.decorator_list)))
    return [int(number) for number in marks]


def test_every_number_is_played_once() -> None:
    numbers = [number for number, _ in marked()]
    assert len(NUMBERS) == 49
    assert sorted(numbers) == sorted(NUMBERS)


def test_the_table_names_the_tests() -> None:
    table = (ROOT / "docs/rendezvous-scenarios.md").read_text()
    rows = re.findall(r"^\| (\d+) \| .+? \| \[`(\w+)`\]\(\.\./(\S+)\) \|$", table, re.MULTILINE)
    assert [(int(number), name) for number, name, _ in rows] == sorted(marked())
    assert all(f"def {name}(" in (ROOT / file).read_text() for _, name, file in rows)
