"""Which fields of a pod hold no quantity, although they have to: the API server says that one does, and not which."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

QUANTITY = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
"""As the reference of the Kubernetes API has it (``resource.Quantity``)."""

_MAPS, _FIELDS = ("limits", "requests", "overhead"), ("sizeLimit", "divisor")
"""Fields of a PodSpec that map names to quantities, and that are quantities, wherever they stand."""


def unreadable(value: Any, path: str = "") -> Iterator[str]:
    """The fields below *path* that hold none, each with what it holds."""
    if isinstance(value, list):
        for i, one in enumerate(value):
            yield from unreadable(one, f"{path}[{i}]")
    elif isinstance(value, Mapping):
        for name, one in value.items():
            place = f"{path}.{name}" if path else str(name)
            if name in _MAPS and isinstance(one, Mapping):
                yield from (f'{place}["{key}"] is {json.dumps(held)}' for key, held in one.items() if not _read(held))
            elif name in _FIELDS and not _read(one):
                yield f"{place} is {json.dumps(one)}"
            else:
                yield from unreadable(one, place)


def _read(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number or value is None or (isinstance(value, str) and bool(QUANTITY.fullmatch(value)))
