"""``kubernetes-dynamic``: what torch expects of any of its backends, and real agents of torch's own handler."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousParameters, RendezvousStateError

from elasticjob_rendezvous import backend, kube
from elasticjob_rendezvous.backend import KubernetesRendezvousBackend
from elasticjob_rendezvous.roundstores import RoundStores
from elasticjob_rendezvous.texts import Texts
from support.plain_torchrun import Torchrun
from support.rendezvous_api import Refused

if TYPE_CHECKING:
    import pathlib

    from support.rendezvous_api import FakeApi, Request
    from support.rendezvous_jobs import Job


def backend_of(job: Job, run_id: str = "run", *, patience: float = 5.0) -> KubernetesRendezvousBackend:
    """One agent's backend: each has read what it has read by itself."""
    return KubernetesRendezvousBackend(Texts(job.api, f"{job.name}-dynamic", patience=patience), run_id)


def written(found: tuple[bytes, Any, bool] | None) -> tuple[bytes, Any, bool]:
    assert found is not None
    return found


def stored(job: Job) -> dict[str, str]:
    """What is in the ConfigMap."""
    body = job.api.get(kube.CONFIG_MAP, f"{job.name}-dynamic")
    assert body is not None
    return dict(body["data"])


# What torch's own test tree asks of each backend


def test_there_is_no_state_before_one_is_set(either_job: Job) -> None:
    assert backend_of(either_job).get_state() is None


def test_a_state_that_was_set_is_read_with_a_token_by_whoever_asks(either_job: Job) -> None:
    _, token, has_set = written(backend_of(either_job).set_state(b"x\x00\xff"))

    assert has_set
    assert backend_of(either_job).get_state() == (b"x\x00\xff", token)


def test_the_current_token_lets_a_state_be_replaced(either_job: Job) -> None:
    one = backend_of(either_job)
    _, first, _ = written(one.set_state(b"x"))

    state, second, has_set = written(one.set_state(b"y", first))

    assert (state, has_set) == (b"y", True)
    assert first != second


@pytest.mark.parametrize("how", ["an old token", "no token", "a token of another kind", "a number"])
def test_without_the_current_token_the_current_state_comes_back(either_job: Job, how: str) -> None:
    one = backend_of(either_job)
    _, old, _ = written(one.set_state(b"x"))
    _, current, _ = written(one.set_state(b"y", old))
    token = {"an old token": old, "no token": None, "a token of another kind": "invalid", "a number": 7}[how]

    assert one.set_state(b"z", token) == (b"y", current, False)
    assert backend_of(either_job).set_state(b"z", token) == (b"y", current, False)


def test_a_token_where_there_is_no_state_sets_none(either_job: Job) -> None:
    assert backend_of(either_job).set_state(b"x", "12") is None
    assert backend_of(either_job).get_state() is None


@pytest.mark.parametrize("text", ["not base64!", "AAA", "é"])
def test_a_state_that_cannot_be_read_is_an_error_and_not_none(either_job: Job, text: str) -> None:
    body = {"metadata": {"name": f"{either_job.name}-dynamic"}, "data": {"torch.rendezvous.run": text}}
    either_job.api.create(kube.CONFIG_MAP, body)

    with pytest.raises(RendezvousStateError):
        backend_of(either_job).get_state()


# What is ours


def test_of_many_writers_with_one_token_one_wins(either_job: Job) -> None:
    _, token, _ = written(backend_of(either_job).set_state(b"0"))
    results = []
    writers = [
        threading.Thread(target=lambda n=n: results.append(backend_of(either_job).set_state(b"%d" % n, token)))
        for n in range(1, 6)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    winners = [state for state, _, has_set in map(written, results) if has_set]
    assert len(winners) == 1
    assert {state for state, _, _ in map(written, results)} == set(winners)


def test_runs_of_one_name_do_not_meet_and_a_later_one_clears_the_earlier(either_job: Job) -> None:
    for run in ("other", "job.1", "job.2", "job.10"):
        assert written(backend_of(either_job, run).set_state(run.encode()))[2]

    assert set(stored(either_job)) == {"torch.rendezvous.other", "torch.rendezvous.job.10"}


def test_what_is_too_large_is_refused_both_ways(either_job: Job) -> None:
    with pytest.raises(RendezvousStateError, match="more than 262144"):
        backend_of(either_job).set_state(bytes(backend.MAX_STATE + 1))
    name = f"{either_job.name}-dynamic"
    large = {"metadata": {"name": name}, "data": {"torch.rendezvous.run": "A" * (2 * backend.MAX_STATE + 4)}}
    either_job.api.create(kube.CONFIG_MAP, large)
    with pytest.raises(RendezvousStateError, match="more than 262144"):
        backend_of(either_job).get_state()


def test_a_write_whose_reply_is_lost_is_recognised(fake: FakeApi, fake_job: Job) -> None:
    one = backend_of(fake_job)
    _, token, _ = written(one.set_state(b"x"))

    def lose(request: Request) -> None:
        if request.verb == "update":
            fake.disturb_reply = lambda _: None
            raise ConnectionError

    fake.disturb_reply = lose

    state, new, has_set = written(one.set_state(b"y", token))

    assert (state, has_set) == (b"y", True)
    assert backend_of(fake_job).get_state() == (b"y", new)


def test_an_api_server_that_restarts_is_waited_for_and_one_that_stays_away_is_told(
    fake: FakeApi, fake_job: Job
) -> None:
    failures = iter([Refused(503, "starting"), Refused(503, "starting")])

    def restart(_: Request) -> None:
        for failure in failures:
            raise failure

    fake.disturb = restart
    assert written(backend_of(fake_job).set_state(b"x"))[2]

    def away(_: Request) -> None:
        raise Refused(503, "gone")

    fake.disturb = away
    with pytest.raises(RendezvousConnectionError, match="gone"):
        backend_of(fake_job, patience=0.6).get_state()


def test_a_right_that_is_missing_is_told_at_once(fake: FakeApi, fake_job: Job) -> None:
    def forbid(_: Request) -> None:
        raise Refused(403, "no")

    fake.disturb = forbid
    with pytest.raises(RendezvousConnectionError, match="a Role must allow verb get on configmaps"):
        backend_of(fake_job).get_state()
    assert fake.count() == 1


@pytest.mark.parametrize(("run_id", "endpoint"), [("none", "job"), ("", "job"), ("a b", "job"), ("run", "a/b/c")])
def test_malformed_parameters_are_told_and_change_nothing(run_id: str, endpoint: str, fake_job: Job) -> None:
    parameters = RendezvousParameters(
        backend.BACKEND, endpoint, run_id, 1, 2, local_addr="127.0.0.1", kubeconfig=fake_job.kubeconfig
    )
    before = dict(os.environ)
    with pytest.raises(ValueError, match="--rdzv-"):
        backend.create(parameters)
    assert dict(os.environ) == before


# The agents' store


def stores_of(job: Job, count: int) -> list[RoundStores]:
    texts = [Texts(job.api, f"{job.name}-dynamic", patience=5.0) for _ in range(count)]
    return [RoundStores(one, run_id="run", address="127.0.0.1") for one in texts]


def test_members_of_a_round_meet_at_one_store_and_the_next_round_has_another(either_job: Job) -> None:
    first, second = stores_of(either_job, 2)
    first.set("torch.rendezvous.run.0/a", b"1")
    assert second.get("torch.rendezvous.run.0/a") == b"1"
    assert second.add("torch.rendezvous.run.0/n", 2) == 2
    first.wait(["torch.rendezvous.run.0/n"])
    before = stored(either_job)["torch.store.run"]

    second.set("torch.rendezvous.run.1/a", b"2")

    assert first.get("torch.rendezvous.run.1/a") == b"2"
    assert not first.check(["torch.rendezvous.run.1/n"])
    assert stored(either_job)["torch.store.run"] != before


def test_who_comes_late_to_a_round_that_is_over_is_told(either_job: Job) -> None:
    first, second = stores_of(either_job, 2)
    first.set("torch.rendezvous.run.4/a", b"1")

    with pytest.raises(RendezvousStateError, match="round 3 is over"):
        second.get("torch.rendezvous.run.3/a")


def test_torchs_own_handler_forms_grows_and_finishes(job: Job, tmp_path: pathlib.Path) -> None:
    env = {
        "PET_RDZV_BACKEND": backend.BACKEND,
        "PET_RDZV_ENDPOINT": job.name,
        "PET_RDZV_ID": job.uid,
        "PET_RDZV_CONF": f"kubeconfig={job.kubeconfig},last_call_timeout=1",
        "PET_NNODES": "2:3",
        "PET_LOCAL_ADDR": "127.0.0.1",
        "PET_MAX_RESTARTS": "3",
        "LIGHT": "1",
    }
    with contextlib.ExitStack() as stack:

        def start(name: str) -> Torchrun:
            agent = Torchrun(tmp_path / name, tmp_path / "finish", env)
            stack.callback(agent.stop)
            return agent

        agents = [start("0"), start("1")]
        for agent in agents:
            agent.trains(world=2)
        agents.append(start("2"))
        for agent in agents:
            agent.trains(world=3)
        (tmp_path / "finish").touch()
        assert [agent.wait() for agent in agents] == [0, 0, 0]
