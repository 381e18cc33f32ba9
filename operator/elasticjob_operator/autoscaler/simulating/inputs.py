"""What people hand to the simulator, and how they are told what is wrong with it: file, line, column, what to do."""

from __future__ import annotations

import dataclasses
import math
import sys
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Collection


class InputError(ValueError):
    """What cannot be used; the message says where it stands and what is wanted."""


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a YAML file that knows where it stands. Read as far as it is asked for; nothing in it is evaluated."""

    node: yaml.Node
    path: pathlib.Path

    def entries(self, known: Collection[str] = (), needed: Collection[str] = ()) -> dict[str, Part]:
        """What a mapping holds; if names are *known*, no others, and none of the *needed* may lack."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.wrong(f"wanted is a mapping{f' with {_listed(known)}' if known else ''}")
        found: dict[str, Part] = {}
        for key, value in self.node.value:
            name = str(key.value)
            if name in found or (known and name not in known):
                why = "comes twice" if name in found else f"is not known: there are {_listed(known)}"
                raise Part(key, self.path).wrong(f"{name} {why}")
            found[name] = Part(value, self.path)
        if missing := [name for name in needed if name not in found]:
            raise self.wrong(f"{_listed(missing)} must be given")
        return found

    def items(self) -> list[Part]:
        """What a list holds."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.wrong("wanted is a list")
        return [Part(value, self.path) for value in self.node.value]

    @property
    def value(self) -> object:
        """Of what kind so ever."""
        try:
            return yaml.constructor.SafeConstructor().construct_document(self.node)
        except (yaml.YAMLError, ValueError, LookupError, OverflowError) as error:
            raise self.wrong(str(getattr(error, "problem", error))) from error

    def _word(self) -> object:
        """What a single word stands for; a whole structure, which may be endless, is not put together."""
        if not isinstance(self.node, yaml.ScalarNode):
            raise self.wrong("wanted is a single value, not a list or a mapping")
        return self.value

    def text(self) -> str:
        """A word."""
        found = self._word()
        if not isinstance(found, str):
            raise self.wrong(f"wanted is a word, not {_shown(found)}")
        return found

    def truth(self) -> bool:
        """Yes or no."""
        found = self._word()
        if not isinstance(found, bool):
            raise self.wrong(f"wanted is true or false, not {_shown(found)}")
        return found

    def number(self, least: float, most: float = math.inf) -> float:
        """A finite number within bounds."""
        found = self._word()
        odd = isinstance(found, bool) or (isinstance(found, float) and not math.isfinite(found))
        if odd or not isinstance(found, int | float):
            raise self.wrong(f"wanted is a number, not {_shown(found)}")
        if not least <= found <= most:
            raise self.wrong(f"wanted is a number from {least:g} to {most:g}, not {_shown(found)}")
        return found

    def count(self, least: int, most: int) -> int:
        """A whole number within bounds."""
        found = self.number(least, most)
        if found != int(found):
            raise self.wrong(f"wanted is a whole number, not {found}")
        return int(found)

    def wrong(self, what: str) -> InputError:
        """An error that says where this stands."""
        mark = self.node.start_mark
        return InputError(f"{self.path}, line {mark.line + 1}, column {mark.column + 1}: {what}")


def document(path: pathlib.Path) -> Part | None:
    """The only document of a YAML file; None if there is nothing in it.

    Raises:
        InputError: it is no YAML; says where.
        OSError: it cannot be opened.
    """
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not in UTF-8: {error}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(f"{path}{place}: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{path}: not YAML: {error}") from error
    return None if node is None else Part(node, path)


def _shown(found: object) -> str:
    """A value in a message, however long it is. Of a number Python writes only so many digits."""
    if isinstance(found, int) and abs(found) > sys.maxsize:
        return "one that is far larger"
    text = repr(found)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - a line's worth


def _listed(names: Collection[str]) -> str:
    return ", ".join(names)
