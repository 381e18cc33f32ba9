"""The chart as files: its copy of the API is the one in crds/, and its rights are the least."""

import json
import pathlib
from typing import Any

import yaml

from elasticjob_operator.api.installation import PRIVILEGES

ROOT = pathlib.Path(__file__).parents[3]


def test_the_chart_carries_the_very_crd() -> None:
    assert (ROOT / "charts/elasticjob/files/elasticjobs.yaml").read_bytes() == (
        ROOT / "crds/elasticjobs.yaml"
    ).read_bytes()


def test_the_chart_knows_the_operators_privileges() -> None:
    schema = json.loads((ROOT / "charts/elasticjob/values.schema.json").read_text())
    known = schema["properties"]["operator"]["properties"]["allowedPrivileges"]["items"]["enum"]

    assert tuple(known) == PRIVILEGES


def test_kubectl_explain_says_something_of_every_field() -> None:
    crd = yaml.safe_load((ROOT / "crds/elasticjobs.yaml").read_text())

    assert undescribed(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "ej") == [
        "ej.metadata"  # the API server has its own, and takes no other
    ]


def undescribed(schema: dict[str, Any], path: str) -> list[str]:
    """Paths of fields without a description; an object within a list has that of the list."""
    fields = schema.get("properties") or (schema.get("items") or {}).get("properties") or {}
    found = [f"{path}.{name}" for name, field in fields.items() if not field.get("description")]
    return found + [more for name, field in fields.items() for more in undescribed(field, f"{path}.{name}")]


def test_every_list_and_string_of_the_api_is_bounded() -> None:
    crd = yaml.safe_load((ROOT / "crds/elasticjobs.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    assert list(unbounded(schema["properties"]["spec"], "spec")) == []
    assert list(unbounded(schema["properties"]["status"], "status")) == []


def unbounded(schema: dict[str, object], path: str) -> list[str]:
    """Paths of lists, maps and strings that may grow without end."""
    kind, found = schema.get("type"), []
    if kind == "string" and not {"maxLength", "enum"} & schema.keys():
        found.append(path)
    if kind == "array" and "maxItems" not in schema:
        found.append(path)
    if "additionalProperties" in schema and "maxProperties" not in schema:
        found.append(path)
    for name, part in dict(schema.get("properties") or {}).items():  # type: ignore[call-overload]  # YAML is untyped
        found += unbounded(part, f"{path}.{name}")
    items = schema.get("items")
    return found + (unbounded(items, f"{path}[]") if isinstance(items, dict) else [])


def test_the_operator_may_neither_read_secrets_nor_raise_itself() -> None:
    helpers = (ROOT / "charts/elasticjob/templates/_helpers.tpl").read_text()
    rules = yaml.safe_load(helpers.split('define "elasticjob.rules" -}}')[1].split("{{- end }}")[0])
    verbs = {verb for rule in rules for verb in rule["verbs"]}
    resources = {resource for rule in rules for resource in rule["resources"]}

    assert not verbs & {"*", "escalate", "bind", "impersonate", "deletecollection", "patch"}
    assert not resources & {"*", "secrets", "nodes", "clusterroles", "clusterrolebindings"}
