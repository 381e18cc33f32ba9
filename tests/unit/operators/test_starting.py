"""What the operator does before it can work, and what it shows of itself."""

import logging
import socket
import types
from typing import Any

import pytest

from elasticjob_operator import running
from elasticjob_operator.api import settings, status
from elasticjob_operator.kube import errors, metrics, stopwatch
from elasticjob_operator.kube.queue import Key
from elasticjob_rendezvous.round.lease import Progress
from elasticjob_rendezvous.round.record import Phase
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


async def test_ten_thousand_jobs_are_not_ten_thousand_series() -> None:
    shown = metrics.Metrics()
    watch = stopwatch.Stopwatch(shown)
    first = build.held(0, progress=Progress(2, 1, 1, None))
    life = [build.running(record=build.a_round(phase, 2)) for phase in (Phase.OPEN, Phase.SEALED)]
    life.append(build.running(record=build.a_round(number=2), leases=[first]))
    sizes = set()
    for number in range(10_000):
        for seen in life:
            watch.look(Key("ns", f"job-{number}"), seen)
        watch.count(status.Status(), status.Status(failures=1))
        if number % 5_000 == 0:
            sizes.add(len(shown.text().splitlines()))

    assert len(sizes) == 1
    assert 'elasticjob_recovery_seconds_count{rung="start",step="step"} 10000\n' in shown.text()
    assert "job-" not in shown.text()


async def test_a_health_port_that_is_taken_is_one_line_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        watched: Any = types.SimpleNamespace(trouble=str, missing=tuple)
        with pytest.raises(running.StartError, match=f"--health-port {port}: .*in use"):
            await running._health(settings.parse([f"--health-port={port}"], {}), watched, None, metrics.Metrics())
