"""The examples: what the README shows, what the operator reads, and what makes them fit each other."""

from __future__ import annotations

import hashlib
import pathlib
from typing import Any

import pytest
import yaml

from elasticjob_operator.api import spec

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"


def objects(name: str) -> dict[str, dict[str, Any]]:
    """The manifest's objects by kind."""
    return {one["kind"]: one for one in yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())}


def test_the_readme_shows_the_first_manifest_as_it_is() -> None:
    assert f"```yaml\n{(EXAMPLES / 'first.yaml').read_text()}```" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(("name", "low", "high", "nodes"), [("first", 1, 4, 2), ("digits", 1, 3, 2)])
def test_the_operator_reads_an_example_as_it_is_meant(name: str, low: int, high: int, nodes: int) -> None:
    job = objects(name)["ElasticJob"]
    parsed = spec.parse(job["spec"])

    assert job["metadata"]["name"] == name
    assert not isinstance(parsed, str)
    assert (parsed.min_nodes, parsed.max_nodes, parsed.nodes) == (low, high, nodes)


def test_digits_trains_the_script_in_its_image_on_the_storage_that_it_claims() -> None:
    claim, job = objects("digits")["PersistentVolumeClaim"], objects("digits")["ElasticJob"]
    pod = job["spec"]["template"]["spec"]
    [trainer], [volume] = pod["containers"], pod["volumes"]

    assert trainer["command"][:2] == ["torchrun", "/workspace/train.py"]
    assert "COPY train.py digits.csv.gz /workspace/" in (EXAMPLES / "digits" / "Dockerfile").read_text()
    assert trainer["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_the_data_is_what_its_page_says() -> None:
    digest = hashlib.sha256((EXAMPLES / "digits" / "digits.csv.gz").read_bytes()).hexdigest()

    assert digest in (EXAMPLES / "digits" / "DATA.md").read_text()
