"""The look at every job now and then: what no watch has told is found, and a watch that tells nothing is."""

import asyncio
from typing import Any

import pytest

from elasticjob_operator.kube import errors, noticing, queue, reconciling
from elasticjob_operator.kube.queue import Key


class Jobs:
    """An API server that holds one job in each namespace, and refuses to tell of some."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.generation = 1

    async def list(self, kind: str, namespace: str | None) -> list[dict[str, Any]]:
        if namespace in self.refused:
            raise errors.ForbiddenError(403, "elasticjobs is forbidden")
        return [self.job(namespace or "default")]

    def job(self, namespace: str) -> dict[str, Any]:
        meta = {"namespace": namespace, "name": "digits", "uid": f"uid-{namespace}", "generation": self.generation}
        return {"metadata": meta}


async def test_a_namespace_whose_jobs_cannot_be_listed_does_not_hide_the_others() -> None:
    client: Any = Jobs("red")
    keys = queue.Queue()
    task = asyncio.create_task(reconciling.relist(client, keys, noticing.Notice(keys), ("red", "blue"), 300))

    assert await asyncio.wait_for(keys.get(), 5) == Key("blue", "digits")
    task.cancel()


async def test_a_job_that_is_not_listed_any_more_is_looked_at_once_more() -> None:
    lists: list[list[dict[str, Any]]] = [[Jobs().job("red")], [], []]
    asked: list[Key] = []
    waiting: Any = queue.Queue()
    waiting.add = asked.append
    client: Any = Jobs()
    over = asyncio.Event()

    async def listed(*_: object) -> list[dict[str, Any]]:
        if not lists:
            over.set()
            await asyncio.Event().wait()
        return lists.pop(0)

    client.list = listed
    task = asyncio.create_task(reconciling.relist(client, waiting, noticing.Notice(waiting), (), 0))
    await asyncio.wait_for(over.wait(), 5)

    assert asked == [Key("red", "digits")] * 2
    task.cancel()


@pytest.mark.parametrize(
    ("jobs", "idle", "looks"),
    [(300, 1.0, 300), (1000, 300.0, 0), (1000, 999.0, 0), (1000, 1000.0, 1000), (1000, float("inf"), 1000)],
)
async def test_a_thousand_jobs_at_rest_are_looked_at_once_a_second(jobs: int, idle: float, looks: int) -> None:
    """With those that a job's progress causes, of which there is no more than one a second either."""
    asked: list[Key] = []
    waiting: Any = queue.Queue()
    waiting.add, waiting.idle = asked.append, lambda _: idle
    client: Any = Jobs()
    notice: Any = noticing.Notice(waiting)
    over = asyncio.Event()
    notice.prune = lambda _: over.set()

    async def listed(*_: object) -> list[dict[str, Any]]:
        return [Jobs().job(f"team-{number}") for number in range(jobs)]

    client.list = listed
    task = asyncio.create_task(reconciling.relist(client, waiting, notice, (), 300))
    await asyncio.wait_for(over.wait(), 5)

    assert len(asked) == looks
    task.cancel()


async def test_who_is_told_of_no_change_for_a_whole_interval_is_blind_and_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client: Any = Jobs()
    keys = queue.Queue()

    await asyncio.wait_for(reconciling.relist(client, keys, noticing.Notice(keys), (), 0.001), 5)

    assert "told nothing of 1 changes" in caplog.text


async def test_who_is_told_goes_on() -> None:
    client: Any = Jobs()
    keys = queue.Queue()
    notice = noticing.Notice(keys)
    notice.event("ElasticJob", {"type": "ADDED", "object": client.job("default")})

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reconciling.relist(client, keys, notice, (), 0.001), 0.1)


@pytest.mark.parametrize(("refused", "known"), [((), {Key("red", "digits"), Key("blue", "digits")}), (("red",), None)])
async def test_jobs_count_as_gone_only_where_all_could_be_listed(refused: tuple[str, ...], known: object) -> None:
    client: Any = Jobs(*refused)
    keys = queue.Queue()
    notice: Any = noticing.Notice(keys)
    pruned: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    notice.prune = pruned.set_result
    task = asyncio.create_task(reconciling.relist(client, keys, notice, ("red", "blue"), 300))

    assert await asyncio.wait_for(pruned, 5) == known
    task.cancel()
