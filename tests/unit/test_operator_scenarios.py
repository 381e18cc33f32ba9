"""Every known failure and bad input of docs/operator-scenarios.md names a test that is there."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
NUMBERS = (
    "S1 S3 S5 S6 S8 S9 S10 S12 S13 S15 S17 S18 S19 S21 S22 S24 S25 S26 S28 S29 S30 S32 S33 S35 S36 S38 S40 S41 S43 S45 "
    "S46 S47 S49 S50 S53 S55 S57 S58 S59 S61 S62 "
    "B1 B2 B4 B5 B7 B9 B10 B12 B14 B16 B17 B18 B20 B21 B23 B24 B26 B27 B28 B29 B30 B31 B33 B35 B39 B40 B42 B43 B45 B46 "
    "B48 B49 B51 B52 B54 B55 B56"
)


def rows() -> list[tuple[str, str]]:
    """Number and last column of each."""
    text = (ROOT / "docs/operator-scenarios.md").read_text()
    return re.findall(r"^\| ([SB]\d+) \| .+? \| (.+) \|$", text, re.MULTILINE)


def test_every_number_has_its_line() -> None:
    assert [number for number, _ in rows()] == NUMBERS.split()


def test_each_line_names_a_test_that_is_there() -> None:
    for number, last in rows():
        named = re.fullmatch(r"\[`(\w+)`\]\(\.\./(\S+)\)", last)
        assert named, number
        assert f"def {named[1]}(" in (ROOT / named[2]).read_text(), number
