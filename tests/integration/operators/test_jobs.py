"""A job's life on a real API server, with the operator as a process under the chart's own rights."""

import time
from typing import Any

import pytest

from elasticjob_operator.kube import client as clients
from elasticjob_rendezvous.round.record import Phase, Reason, Record
from support import operator_builders as build
from support.operator_cluster import Operator, until
from support.operator_job import Job
from support.operator_mutations import BASE, mutations, reverted
from support.operator_simulation import Simulation, acting


@pytest.fixture
def job(admin: clients.Client, simulation: Simulation, operator: Operator) -> Job:
    """A job of a running operator; nothing is applied yet."""
    operator.start()
    return Job(admin, simulation)


async def test_a_job_starts_grows_shrinks_and_succeeds(job: Job, operator: Operator) -> None:
    await job.apply(nodes=2)
    first = await job.trains(2)
    await job.scale(4)
    grown = await job.trains(4)
    await job.scale(1)
    shrunk = await job.trains(1)
    job.simulation.finishing = True
    done = await job.reaches("Succeeded")

    assert (first["round"], first["roundReason"]) == (1, "Started")
    assert (grown["round"], grown["roundReason"]) == (2, "Resized")
    assert (shrunk["round"], shrunk["roundReason"]) == (3, "Resized")
    assert (done["failures"], done["disruptions"], done["resizes"]) == (0, 0, 2)
    assert done["completionTime"]
    assert done["progress"]["step"] > 0
    await until(lambda: _all_succeeded(job))
    assert "ERROR" not in operator.text
    assert "Forbidden" not in operator.text


async def _all_succeeded(job: Job) -> bool:
    return [p["status"]["phase"] for p in await job.simulation.pods()] == ["Succeeded"]


async def test_a_job_is_suspended_edited_and_resumed(job: Job) -> None:
    await job.apply(nodes=2, maxNodes=2)
    await job.trains(2)
    await job.simulation.workers_fail("digits-1-0")
    await job.comes_to("failures", 1)
    await job.trains(2)

    await job.edit(suspend=True)
    await job.reaches("Suspended")
    await until(lambda: _none_runs(job))
    await job.edit(minNodes=2, maxNodes=6, nodes=3)
    await job.edit(suspend=False)
    status = await job.trains(3)

    assert (status["failures"], status["disruptions"], status["roundReason"]) == (1, 0, "Resumed")


async def _none_runs(job: Job) -> bool:
    return not [p for p in await job.simulation.pods() if p["status"]["phase"] == "Running"]


async def test_a_pod_deleted_with_no_grace_opens_a_round_within_a_second_and_is_replaced(job: Job) -> None:
    """The quickest of a few: the machine may have had other things to do."""
    await job.apply(nodes=3)
    await job.trains(3)
    took: list[float] = []

    while min(took, default=1) >= 1 and len(took) < 5:
        lost = next(p for p in await job.simulation.pods() if p["status"]["phase"] == "Running")
        began, before = time.monotonic(), await job.simulation.round()
        await job.simulation.remove(lost["metadata"]["name"])

        async def reopened(before: Record | None = before) -> bool:
            record = await job.simulation.round()
            return record is not None and before is not None and record.number > before.number

        await until(reopened)
        took.append(time.monotonic() - began)
        await job.comes_to("disruptions", len(took))
        assert (await job.trains(3))["failures"] == 0

    assert min(took) < 1


async def test_a_failed_pod_counts_and_too_many_end_the_job(job: Job) -> None:
    await job.apply(nodes=2, failurePolicy={"maxFailures": 1})
    await job.trains(2)

    for name in ("digits-1-0", "digits-0-0"):
        await job.simulation.crash(name, 3, "out of memory, or something like it")
        if name == "digits-1-0":
            await job.comes_to("failedPods", 1)
            await job.trains(2)

    status = await job.reaches("Failed")
    assert status["reason"] == "TooManyFailures"
    assert status["failedPods"] == 2
    assert (status["lastFailure"]["exitCode"], status["lastFailure"]["pod"]) == (3, "digits-0-0")
    failed = next(c for c in status["conditions"] if c["type"] == "Failed")
    assert "out of memory" in failed["message"]


async def test_a_lost_round_is_made_again_with_a_higher_number(job: Job, admin: clients.Client) -> None:
    await job.apply(nodes=2)
    await job.trains(2)

    where = clients.path("ConfigMap", job.namespace, "digits-rendezvous")
    await admin.request("DELETE", where)

    async def again() -> bool:
        record = await job.simulation.round()
        return record is not None and record.phase is Phase.SEALED and record.number > 1

    await until(again)
    record = await job.simulation.round()
    assert record is not None
    assert record.reason is Reason.STATE_LOST
    await job.trains(2)


async def test_a_template_that_the_api_refuses_is_told_and_heals_by_an_edit(job: Job, admin: clients.Client) -> None:
    bad = {"spec": {"containers": [{"name": "trainer", "image": "x", "resources": {"limits": {"cpu": "a lot"}}}]}}
    await job.apply(nodes=2, template=bad)

    async def told() -> Any:
        conditions = (await job.status()).get("conditions") or ()
        return next((c for c in conditions if c["reason"] == "TemplateInvalid"), None)

    condition = await until(told)
    assert condition["message"].startswith(
        'spec.template.spec.containers[0].resources.limits["cpu"] is "a lot", which is no quantity (one'
    )
    assert (await job.status())["reason"] == "TemplateInvalid"

    misspelt = {"name": "trainer", "image": "x", "resourcess": {}, "env": [{"name": "A", "valuee": "1"}]}
    await job.edit(template={"spec": {"containers": [misspelt]}})

    async def named() -> bool:
        message = (await told() or {"message": ""})["message"]
        return "containers[0].resourcess" in message and ".valuee" in message

    await until(named)

    await job.edit(template=build.TEMPLATE)
    await job.trains(2)


async def test_a_deleted_job_leaves_nothing(job: Job, admin: clients.Client) -> None:
    await job.apply(nodes=2)
    await job.trains(2)
    assert await admin.get("NetworkPolicy", job.namespace, "digits-worker") is not None

    await admin.request("DELETE", clients.path("ElasticJob", job.namespace, "digits"))

    async def empty() -> bool:
        kinds = ("Pod", "Lease", "Role", "RoleBinding", "NetworkPolicy")
        left = [await admin.list(kind, job.namespace) for kind in kinds]
        names = [
            i["metadata"]["name"]
            for kind in ("ConfigMap", "ServiceAccount")
            for i in await admin.list(kind, job.namespace)
        ]
        return not any(left) and not any(name.startswith("digits") for name in names)

    await until(empty)


async def test_every_field_is_changed_and_changed_back_while_the_job_trains(job: Job) -> None:
    await job.apply(**BASE)
    before = await job.trains(2)

    for _, changed in mutations():
        await job.edit(**changed)
        await job.edit(**reverted(changed))
    await job.edit(nodes=3)  # the last word
    after = await job.trains(3)

    told = ("state", "failures", "failedPods", "disruptions", "failedRounds")
    assert [after[name] for name in told] == [before[name] for name in told]
    assert {p["metadata"]["name"] for p in await job.simulation.pods()} >= {"digits-0-0", "digits-1-0"}


async def test_a_job_that_finds_no_place_in_time_fails_and_says_what_its_pods_lacked(job: Job) -> None:
    job.simulation.start_pods = False
    await job.apply(nodes=1)
    await job.comes_to("reason", "Unschedulable")
    await job.edit(startupDeadlineSeconds=1)

    status = await job.reaches("Failed")

    assert status["endReason"] == "StartupDeadlineExceeded"
    assert "Unschedulable: pods ready: 0 of 1; digits-0-0: 0/1 nodes are available" in status["endMessage"]
    assert await job.simulation.pods() == []


async def test_a_copy_of_a_job_with_its_status_uid_and_owner_is_a_new_job(job: Job, admin: clients.Client) -> None:
    """As `kubectl get --output=yaml` has it, but for the ``resourceVersion``, with which nothing can be made."""
    await job.apply(nodes=1)
    await job.trains(1)
    await job.simulation.workers_fail("digits-0-0")
    await job.comes_to("failures", 1)
    before = await job.trains(1)
    found = await admin.get("ElasticJob", job.namespace, "digits")
    assert found is not None
    place = await admin.request("GET", f"/api/v1/namespaces/{job.namespace}")
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": job.namespace, "uid": place["metadata"]["uid"]}
    meta = {**found["metadata"], "name": "copy", "ownerReferences": [owner]}
    del meta["resourceVersion"]

    made = await admin.create("ElasticJob", {**found, "metadata": meta})
    copy = Job(admin, Simulation(admin, job.namespace, "copy"))
    async with acting(copy.simulation):
        status = await copy.trains(1)

    rounds = [await one.simulation.round() for one in (job, copy)]
    assert [one and one.job for one in rounds] == [found["metadata"]["uid"], made["metadata"]["uid"]]
    assert (status["round"], status["roundReason"], status["failures"]) == (1, "Started", 0)
    assert (await job.status())["round"] == before["round"]


async def test_a_job_that_a_quota_holds_up_says_so_and_goes_on_when_there_is_room(
    job: Job, admin: clients.Client
) -> None:
    where = f"/api/v1/namespaces/{job.namespace}/resourcequotas"
    quota = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "1"}}}
    await admin.request("POST", where, body=quota)

    async def kept() -> bool:
        return "used" in (await admin.request("GET", f"{where}/pods")).get("status", {})

    async def told() -> Any:
        conditions = (await job.status()).get("conditions") or ()
        return next((c["message"] for c in conditions if c["reason"] == "QuotaExceeded"), None)

    await until(kept)
    await job.apply(nodes=2)
    assert "exceeded quota: pods" in await until(told)

    await admin.request("DELETE", f"{where}/pods")
    await job.trains(2)
