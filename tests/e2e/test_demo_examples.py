"""The example manifests are what the API server takes, and say what their comments promise."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from demo.story import Scene

EXAMPLES = sorted((pathlib.Path(__file__).parents[2] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("manifest", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_accepted(scene: Scene, manifest: pathlib.Path) -> None:
    said = scene.run("apply", "--dry-run=server", "--validate=strict", "-f", str(manifest))

    assert f"elasticjob.elasticjob.dev/{manifest.stem} created" in said
