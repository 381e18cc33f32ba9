"""For every field of an ElasticJob's spec, as the CRD has it, another value that is valid too."""

import copy
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from support import operator_builders as build

CRD = pathlib.Path(__file__).parents[2] / "crds/elasticjobs.yaml"

BASE: dict[str, Any] = {"minNodes": 1, "maxNodes": 4, "nodes": 2}
"""The spec whose fields are changed; what is not here has its default."""

CHOSEN: dict[str, Any] = {
    "allowedNodes.step": 2,
    "allowedNodes.sizes": [1, 2, 4],
    "template": {"spec": {"containers": [{"name": "trainer", "image": "docker.io/elasticjob/trainer:other"}]}},
}
"""Values that the schema alone does not make: they have to go with the rest of the spec."""

LONG = 100_000
"""For a duration that has neither a default nor a maximum: none that ends the job meanwhile."""


def mutations() -> Iterator[tuple[str, dict[str, Any]]]:
    """The path of each field that may be changed, and the spec's top-level field with another value there."""
    spec = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for path, value in _leaves(spec["properties"], BASE, ()):
        changed: Any = value
        for name in reversed(path[1:]):
            changed = {name: changed}
        yield ".".join(path), {path[0]: changed}


def reverted(changed: Mapping[str, Any]) -> dict[str, Any]:
    """What takes the change back; ``None`` stands for a field that is not there."""
    base = {**build.manifest(**BASE)["spec"]}
    return {name: copy.deepcopy(base.get(name)) for name in changed}


def _leaves(
    fields: Mapping[str, Any], base: Mapping[str, Any], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, schema in fields.items():
        path = (*above, name)
        if any("oldSelf" in rule["rule"] for rule in schema.get("x-kubernetes-validations") or ()):
            continue  # it can't be changed
        if ".".join(path) in CHOSEN:
            yield path, CHOSEN[".".join(path)]
        elif schema.get("properties"):
            yield from _leaves(schema["properties"], base.get(name) or {}, path)
        else:
            yield path, _other(schema, base.get(name, schema.get("default")))


def _other(schema: Mapping[str, Any], now: Any) -> Any:
    """A valid value that is not *now*."""
    if "enum" in schema:
        return next(value for value in schema["enum"] if value != now)
    match schema["type"]:
        case "boolean":
            return not now
        case "integer":
            return LONG if now is None and schema.get("maximum", LONG) >= LONG else (now or schema["minimum"]) + 1
        case "string":
            return "other"
        case "array":
            return [_other(schema["items"], None)]
        case "object":
            return {name: _other(one, None) for name, one in schema["properties"].items()}
    raise AssertionError(f"no other value is known for {schema}")
