"""What the operator does before it can work, and what it shows of itself."""

import logging
from typing import Any

import pytest

from elasticjob_operator import running
from elasticjob_operator.api import status
from elasticjob_operator.kube import errors, metrics, stopwatch
from support import operator_builders as build


async def test_without_the_crd_it_says_what_to_install_and_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Any] = [errors.from_response(404, b"404 page not found", None), errors.UnavailableError(0, "x"), {}]

    class Client:
        async def request(self, method: str, where: str) -> Any:
            if isinstance(answer := answers.pop(0), Exception):
                raise answer
            return answer

    monkeypatch.setattr(running, "CRD_SECONDS", 0.0)
    client: Any = Client()
    with caplog.at_level(logging.WARNING):
        await running._start(client, None)

    assert answers == []
    assert "install the CRD" in caplog.messages[0]


def test_ten_thousand_jobs_are_not_ten_thousand_series() -> None:
    shown = metrics.Metrics()
    watch = stopwatch.Stopwatch(shown)
    sizes = set()
    for _ in range(3):
        for _ in range(10):
            watch.count(status.Status(), status.Status(failures=1))
        sizes.add(len(shown.text().splitlines()))

    assert len(sizes) == 1
    assert build.a_job().name not in shown.text()
