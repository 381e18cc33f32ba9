"""A quantity that is none is named by its field, which the API server leaves out."""

from typing import Any

import pytest

from elasticjob_operator.core import quantities


@pytest.mark.parametrize("value", [2, "2", "500m", "4Gi", "1e3", "1.5", ".5", "+1k", "0", 0.5, "12E", "5.", None])
def test_what_the_api_server_reads_is_a_quantity(value: Any) -> None:
    assert list(quantities.unreadable({"limits": {"cpu": value}, "sizeLimit": value})) == []


@pytest.mark.parametrize(
    ("value", "shown"), [("two", '"two"'), ("4GB", '"4GB"'), ("", '""'), (True, "true"), ([1], "[1]")]
)
def test_what_it_does_not_read_is_named_with_its_place(value: Any, shown: str) -> None:
    pod = {
        "spec": {
            "containers": [{"name": "a"}, {"resources": {"limits": {"nvidia.com/gpu": value, "cpu": 1}}}],
            "volumes": [{"emptyDir": {"sizeLimit": value}}],
        }
    }

    assert list(quantities.unreadable(pod)) == [
        f'spec.containers[1].resources.limits["nvidia.com/gpu"] is {shown}',
        f"spec.volumes[0].emptyDir.sizeLimit is {shown}",
    ]


def test_names_that_only_look_alike_are_left_alone() -> None:
    assert list(quantities.unreadable({"metadata": {"annotations": {"limits": "none"}}, "requests": "x"})) == []
