"""The parts between watches and decisions: queue, news, pace, election, errors, watchdog."""

import asyncio
import copy
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest
from kubernetes.aio.client import configuration

from elasticjob_operator.api import job as jobs
from elasticjob_operator.api import names
from elasticjob_operator.core import children
from elasticjob_operator.core.actions import Create, DeletePod, Event, Problem, ReleaseLease, WriteRound
from elasticjob_operator.kube import applying, electing, errors, noticing, queue, recording, watchdog
from elasticjob_operator.kube import client as clients
from elasticjob_operator.kube.applying import Applier
from elasticjob_operator.kube.pacing import Pace
from elasticjob_operator.kube.reading import Reader
from elasticjob_operator.kube.reconciling import Reconciler
from elasticjob_rendezvous.round import lease
from elasticjob_rendezvous.round.lease import SlotLease
from support import operator_builders as build

KEY = queue.Key("default", "digits")
OTHER = queue.Key("default", "other")


class FakeClient:
    """Objects in a dictionary; what is in *refuse* is raised instead of created."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.refuse: dict[str, errors.ApiError] = {}
        self.calls: list[str] = []
        self.down = False

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        self._answer("get", kind, name)
        return copy.deepcopy(self.objects.get((kind, name)))

    async def list(self, kind: str, namespace: str | None, selector: str = "") -> list[dict[str, Any]]:
        self._answer("list", kind, "")
        return [copy.deepcopy(item) for (found, _), item in self.objects.items() if found == kind]

    async def create(self, kind: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        name = manifest["metadata"]["name"]
        self._answer("create", kind, name)
        if kind in self.refuse:
            raise self.refuse[kind]
        if (kind, name) in self.objects:
            raise errors.ConflictError(409, "exists")
        return self._put(kind, dict(manifest))

    async def replace(self, kind: str, manifest: Mapping[str, Any], *, sub: str = "") -> dict[str, Any]:
        name = manifest["metadata"]["name"]
        self._answer("replace", kind, name)
        if self.objects[kind, name]["metadata"]["resourceVersion"] != manifest["metadata"]["resourceVersion"]:
            raise errors.ConflictError(409, "changed")
        return self._put(kind, dict(manifest))

    async def delete(self, kind: str, namespace: str, name: str, *, uid: str) -> None:
        self._answer("delete", kind, name)
        self.objects.pop((kind, name), None)

    def _answer(self, verb: str, kind: str, name: str) -> None:
        self.calls.append(f"{verb} {kind} {name}")
        if self.down:
            raise errors.UnavailableError(0, "no answer")

    def _put(self, kind: str, item: dict[str, Any]) -> dict[str, Any]:
        version = int(item["metadata"].get("resourceVersion", 0)) + 1
        item["metadata"] = {"uid": f"uid {len(self.calls)}", **item["metadata"], "resourceVersion": str(version)}
        self.objects[kind, item["metadata"]["name"]] = item
        return item


def _nobody() -> Any:
    """A cluster in which there is nothing any more."""
    return FakeClient()


# The queue


async def test_what_is_added_often_is_looked_at_once() -> None:
    waiting = queue.Queue()
    for _ in range(5):
        waiting.add(KEY)
    waiting.add(OTHER)

    first, second = await waiting.get(), await waiting.get()

    assert {first, second} == {KEY, OTHER}
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting.get(), 0.2)


async def test_what_is_added_while_it_is_worked_on_is_looked_at_again_afterwards() -> None:
    waiting = queue.Queue()
    waiting.add(KEY)
    key = await waiting.get()
    waiting.add(KEY)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting.get(), 0.3)

    waiting.done(key)

    assert await asyncio.wait_for(waiting.get(), 1) == KEY


async def test_the_sooner_wish_counts() -> None:
    waiting = queue.Queue()
    waiting.add(KEY, 60)
    waiting.add(KEY, 0.05)
    waiting.add(KEY, 30)

    assert await asyncio.wait_for(waiting.get(), 1) == KEY


async def test_failures_put_off_one_key_ever_longer_and_success_forgives_them() -> None:
    waiting = queue.Queue()
    delays = [waiting.retry(KEY) for _ in range(20)]
    waiting.forgive(KEY)

    assert all(0.5 * most <= delay <= most for delay, most in zip(delays, [0.1 * 2**n for n in range(9)], strict=False))
    assert all(15 <= delay <= 30 for delay in delays[9:])
    assert waiting.retry(KEY) <= 0.1
    assert waiting.retry(OTHER, least=7) >= 7


@pytest.mark.parametrize(("jobs", "most"), [(29, 30), (100, 100), (1000, 300)])
async def test_many_jobs_that_wait_for_a_quota_do_not_look_more_often_than_a_few(jobs: int, most: float) -> None:
    waiting = queue.Queue()
    keys = [queue.Key("default", f"job-{n}") for n in range(jobs)]
    for key in keys:
        for _ in range(14):
            waiting.retry(key)

    assert all(most / 2 <= waiting.retry(key) <= most for key in keys)


# What is news


def told(*events: tuple[str, dict[str, Any]]) -> list[float]:
    """After how long the job is looked at, for each event that asks for it."""
    asked: list[float] = []

    class Asked(queue.Queue):
        def add(self, key: queue.Key, after: float = 0.0) -> None:
            assert key == KEY
            asked.append(after)

    notice = noticing.Notice(Asked())
    for kind, item in events:
        notice.event(kind, {"type": item.pop("type", "MODIFIED"), "object": item})
    return asked


def item(**fields: Any) -> dict[str, Any]:
    """An object of the job."""
    meta = {"namespace": "default", "name": "digits-0", "uid": "u", "labels": {"elasticjob.dev/job-name": "digits"}}
    return {"metadata": {**meta, **fields.pop("meta", {})}, **fields}


def lease_item(**annotations: str) -> dict[str, Any]:
    """A held Lease."""
    found = {f"elasticjob.dev/{key}": value for key, value in annotations.items()}
    return item(meta={"annotations": found}, spec={"holderIdentity": "pod/0123abcd", "renewTime": "now"})


def progress(step: int, number: int = 1) -> str:
    return json.dumps({"round": number, "step": step, "samples": 1, "loss": None})


async def test_a_renewed_lease_is_no_news() -> None:
    assert told(("Lease", lease_item(arrived="1")), ("Lease", lease_item(arrived="1"))) == [0]


async def test_an_arrival_is_news_at_once_and_progress_later() -> None:
    events = [
        ("Lease", lease_item(arrived="1")),
        ("Lease", lease_item(arrived="2")),
        ("Lease", lease_item(arrived="2", progress=progress(1))),
        ("Lease", lease_item(arrived="2", progress=progress(9))),
        ("Lease", lease_item(arrived="2", progress=progress(1, 2))),
    ]

    assert told(*events) == [0, 0, 0, noticing.PROGRESS_SECONDS, 0]


async def test_a_status_that_we_wrote_ourselves_is_no_news() -> None:
    one = item(meta={"name": "digits", "generation": 1})
    two = item(meta={"name": "digits", "generation": 1, "resourceVersion": "2"}, status={"state": "Running"})
    three = item(meta={"name": "digits", "generation": 2})

    assert told(("ElasticJob", one), ("ElasticJob", two), ("ElasticJob", three)) == [0, 0]


async def test_a_pod_is_news_when_its_state_changes_or_it_is_gone() -> None:
    events = [
        ("Pod", item(status={"phase": "Pending"})),
        ("Pod", item(status={"phase": "Pending"}, meta={"resourceVersion": "2"})),
        ("Pod", item(status={"phase": "Running"})),
        ("Pod", item(status={"phase": "Running"}, meta={"deletionTimestamp": "now"})),
        ("Pod", item(type="DELETED", status={"phase": "Running"})),
    ]

    assert told(*events) == [0, 0, 0, 0]


async def test_a_relist_makes_no_news_of_what_was_heard_since_the_last_one() -> None:
    asked: list[float] = []
    waiting: Any = queue.Queue()
    waiting.add = lambda _, after=0.0: asked.append(after)
    notice = noticing.Notice(waiting)

    for _ in range(4):
        notice.event("Lease", {"type": "MODIFIED", "object": lease_item(arrived="1")})
        notice.prune()
    assert asked == [0]

    notice.prune()
    notice.event("Lease", {"type": "MODIFIED", "object": lease_item(arrived="1")})
    assert asked == [0, 0]  # what was not heard of for a whole interval is forgotten


async def test_what_happens_to_a_cluster_node_is_news_however_long_its_pods_have_run_without_any() -> None:
    asked: list[queue.Key] = []
    waiting: Any = queue.Queue()
    waiting.add = lambda key, _after=0.0: asked.append(key)
    notice = noticing.Notice(waiting)
    notice.event("Pod", {"type": "ADDED", "object": item(spec={"nodeName": "n1"}, status={"phase": "Running"})})
    node = {"metadata": {"name": "n1"}, "spec": {}}
    notice.event("Node", {"type": "ADDED", "object": node})
    for jobs_there in ({KEY}, {KEY}, None, {KEY}):
        notice.prune(jobs_there)
    asked.clear()

    notice.event("Node", {"type": "MODIFIED", "object": {**node, "spec": {"unschedulable": True}}})
    assert asked == [KEY]

    notice.prune({OTHER})
    notice.event("Node", {"type": "MODIFIED", "object": node})
    assert asked == [KEY], "a job that is gone has no pods"


async def test_jobs_that_came_and_went_leave_nothing_in_memory() -> None:
    waiting = queue.Queue()
    notice = noticing.Notice(waiting)
    reconciler = Reconciler(_nobody(), waiting, Reader(_nobody()), Applier(_nobody(), Pace(1000)), instance="test")
    for n in range(500):
        job = item(meta={"name": f"job-{n}", "uid": f"job {n}", "generation": 1})
        pod = item(meta={"uid": f"pod {n}", "labels": {"elasticjob.dev/job-name": f"job-{n}"}}, status={})
        for kind, one in (("ElasticJob", job), ("Pod", pod)):
            for what in ("ADDED", "DELETED"):
                notice.event(kind, {"type": what, "object": one})

    for _ in range(500):
        key = await waiting.get()
        assert await reconciler.reconcile(key)
        waiting.done(key)

    kept = {
        name: held for part in (waiting, notice) for name, held in vars(part).items() if isinstance(held, (dict, set))
    }
    assert {name for name, held in kept.items() if held} == {"_heard"}


async def test_a_job_that_was_kept_and_is_gone_leaves_nothing_in_memory() -> None:
    client, waiting = a_cluster(), queue.Queue()
    reconciler = Reconciler(client, waiting, Reader(client), Applier(client, Pace(1000)), instance="test")
    for _ in range(3):
        await reconciler.reconcile(KEY)
    made = len(client.objects)
    del client.objects["ElasticJob", "digits"]
    waiting.add(KEY, 3600)  # its deadline, say

    await reconciler.reconcile(KEY)

    parts = (waiting, reconciler._reader, reconciler._applier, reconciler._stopwatch, reconciler._recorder)
    held = {
        (type(part), name)
        for part in parts
        for name, kept in vars(part).items()
        if isinstance(kept, dict | set) and kept
    }
    assert made > 3
    assert held <= {(Reader, "_access_until")}, "which ends by itself"


async def test_a_new_job_of_a_forgotten_ones_name_is_looked_at() -> None:
    waiting = queue.Queue()
    waiting.add(KEY)

    waiting.forget(KEY)

    assert await asyncio.wait_for(waiting.get(), 5) == KEY


async def test_a_job_whose_deletion_was_never_told_is_forgotten_by_the_relist() -> None:
    notice = noticing.Notice(queue.Queue())
    notice.event("ElasticJob", {"type": "ADDED", "object": item(meta={"name": "digits", "generation": 2})})

    notice.prune({KEY})
    assert notice.missed({"u": 2}) == set()

    notice.prune({OTHER})
    assert notice.missed({"u": 2}) == {"u"}


async def test_a_job_that_was_made_while_the_others_were_listed_is_not_forgotten() -> None:
    """Or, if it then says nothing for two relists (a suspended job, say), the watch would be taken for blind."""
    notice = noticing.Notice(queue.Queue())
    notice.prune({OTHER})
    notice.event("ElasticJob", {"type": "ADDED", "object": item(meta={"name": "digits", "generation": 1})})

    notice.prune({OTHER})
    assert notice.missed({"u": 1}) == set()

    notice.prune({KEY, OTHER})
    assert notice.missed({"u": 1}) == set()


async def test_what_belongs_to_no_job_is_ignored() -> None:
    assert told(("Lease", item(meta={"labels": {}}, spec={}))) == []


async def test_changes_that_the_watch_did_not_tell_of_are_found() -> None:
    notice = noticing.Notice(queue.Queue())
    notice.event("ElasticJob", {"type": "ADDED", "object": item(meta={"name": "digits", "generation": 2})})

    assert notice.missed({"u": 2}) == set()
    assert notice.missed({"u": 3, "v": 1}) == {"u", "v"}


# The pace


async def test_pods_are_made_at_the_clusters_pace_after_a_first_burst() -> None:
    pace, loop = Pace(50), asyncio.get_running_loop()
    began = loop.time()

    await asyncio.gather(*(pace.turn() for _ in range(70)))

    assert 0.3 <= loop.time() - began < 2


# The election


async def test_one_leads_and_the_other_waits_until_it_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(electing, "RENEW_SECONDS", 0.05)
    client: Any = FakeClient()
    first = electing.Elector(client, namespace="system", identity="first")
    second = electing.Elector(client, namespace="system", identity="second")
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    async with asyncio.timeout(5):
        while client.calls.count(f"get Lease {electing.NAME}") < 4:  # noqa: ASYNC110 - it looks at its own pace
            await asyncio.sleep(0.01)
    assert not second.leads

    await first.release()
    await asyncio.wait_for(waiting, 2)

    spec = client.objects["Lease", electing.NAME]["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 2)


async def test_a_lease_that_stands_still_is_taken_over_and_its_holder_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(electing, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(electing, "HELD_SECONDS", 0.3)
    client: Any = FakeClient()
    first = electing.Elector(client, namespace="system", identity="first")
    second = electing.Elector(client, namespace="system", identity="second")
    await first.acquire()

    await asyncio.wait_for(second.acquire(), 3)
    await asyncio.wait_for(first.keep(), 3)

    assert second.leads
    assert not first.leads


async def test_who_cannot_renew_gives_up_before_another_may_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(electing, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(electing, "GIVE_UP_SECONDS", 0.3)
    client: Any = FakeClient()
    leader = electing.Elector(client, namespace="system", identity="first")
    await leader.acquire()
    client.down = True

    await asyncio.wait_for(leader.keep(), 3)

    assert not leader.leads
    assert electing.GIVE_UP_SECONDS < electing.HELD_SECONDS


async def test_whose_renewal_is_not_answered_gives_up_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(electing, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(electing, "GIVE_UP_SECONDS", 0.3)
    client: Any = FakeClient()
    leader = electing.Elector(client, namespace="system", identity="first")
    await leader.acquire()
    monkeypatch.setattr(client, "replace", lambda *_, **__: asyncio.sleep(60))

    await asyncio.wait_for(leader.keep(), 3)

    assert not leader.leads


# Carrying out


def a_pod_manifest(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}}


async def applied(client: Any, *todo: Any, job: jobs.Job | None = None) -> tuple[Problem, ...]:
    return await Applier(client, Pace(1000)).apply(job or build.a_job(), todo)


async def test_a_late_answer_is_one_that_failed_and_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(electing, "CALL_SECONDS", -0.99)
    client: Any = FakeClient()
    monkeypatch.setattr(client, "get", lambda *_: asyncio.sleep(60))

    with pytest.raises(errors.UnavailableError, match="no answer"):
        await electing.Elector(client, namespace="system", identity="a")._read()


async def test_a_template_that_is_refused_is_refused_once() -> None:
    client: Any = FakeClient()
    client.refuse["Pod"] = errors.RefusedError(422, "image: Required value")

    problems = await applied(client, *(Create("Pod", a_pod_manifest(f"digits-{n}-0")) for n in range(20)))

    assert problems == (Problem("TemplateInvalid", "image: Required value"),)
    assert len(client.calls) == 1


async def test_a_field_that_no_pod_has_is_named() -> None:
    client: Any = FakeClient()
    said = 'cannot be handled as a Pod: strict decoding error: unknown field "spec.containers[0].imagee"'
    client.refuse["Pod"] = errors.RefusedError(400, f'Pod in version "v1" {said}')

    (problem,) = await applied(client, Create("Pod", a_pod_manifest("digits-0-0")))

    assert problem.reason == "TemplateInvalid"
    assert problem.message.startswith('spec.template makes a pod with unknown field "spec.containers[0].imagee": missp')


async def test_of_a_pod_no_field_is_dropped_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def request(_self: Any, method: str, where: str, *, query: Any = None, body: Any = None) -> dict[str, Any]:
        asked.append((method, where, query, body["metadata"]["name"]))
        return {}

    monkeypatch.setattr(clients.Client, "request", request)
    client = clients.Client(configuration.Configuration())

    await client.create("Pod", a_pod_manifest("digits-0-0"))

    assert asked == [("POST", "/api/v1/namespaces/default/pods", {"fieldValidation": "Strict"}, "digits-0-0")]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.ForbiddenError(403, "pods is forbidden: exceeded quota: gpus, requested: 1"), "QuotaExceeded"),
        (errors.ForbiddenError(403, 'violates PodSecurity "restricted"'), "PodForbidden"),
        (errors.UnavailableError(500, 'failed calling webhook "a.b": no endpoints'), "WebhookUnavailable"),
    ],
)
async def test_what_only_a_person_can_change_is_a_problem(error: errors.ApiError, reason: str) -> None:
    client: Any = FakeClient()
    client.refuse["Pod"] = error

    assert await applied(client, Create("Pod", a_pod_manifest("digits-0-0"))) == (Problem(reason, error.message),)


async def test_what_passes_by_itself_is_no_problem_but_tried_again() -> None:
    client: Any = FakeClient()
    client.refuse["Pod"] = errors.UnavailableError(500, "etcdserver: request timed out")

    with pytest.raises(errors.UnavailableError):
        await applied(client, Create("Pod", a_pod_manifest("digits-0-0")))


@pytest.mark.parametrize(
    ("owner", "labels", "told"),
    [
        (build.UID, names.labels("digits"), ""),
        (build.UID, {"team": "vision"}, "Pod digits-0-0 has lost labels by which it is found"),
        ("another", names.labels("digits"), "Pod digits-0-0 is not this job's"),
    ],
)
async def test_an_object_that_is_there_already_is_ours_or_a_problem(
    owner: str, labels: dict[str, str], told: str
) -> None:
    client: Any = FakeClient()
    meta = {"name": "digits-0-0", "namespace": "default", "ownerReferences": [{"uid": owner}], "labels": labels}
    await client.create("Pod", {"metadata": meta})

    problems = await applied(client, Create("Pod", a_pod_manifest("digits-0-0")))

    assert [(p.reason, p.message[: len(told)]) for p in problems] == ([("NameTaken", told)] if told else [])


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (names.labels("digits", 0), []),
        (names.labels("digits"), ["Lease digits-0 has lost labels by which it is found: delete it, or put them back"]),
        (
            names.labels("digits", 7),
            ["Lease digits-0 has lost labels by which it is found: delete it, or put them back"],
        ),
    ],
)
async def test_a_lease_without_its_slots_label_is_in_nobodys_list(labels: dict[str, str], told: list[str]) -> None:
    client: Any = FakeClient()
    wanted = children.slot_lease(build.a_job(), 0)
    await client.create("Lease", {**wanted, "metadata": {**wanted["metadata"], "labels": labels}})

    problems = await applied(client, Create("Lease", wanted))

    assert [p.message for p in problems] == told


async def test_a_round_that_has_changed_since_it_was_read_ends_the_reconcile() -> None:
    client: Any = FakeClient()
    await applied(client, WriteRound(build.a_round(), ""))
    await applied(client, WriteRound(build.a_round(), "1"))

    with pytest.raises(errors.ConflictError):
        await applied(client, WriteRound(build.a_round(), "1"), DeletePod("digits-0-0", "u", "why"))

    assert "delete Pod digits-0-0" not in client.calls


@pytest.mark.parametrize(
    "read",
    [
        SlotLease(0, pod="pod-0-0", nonce="00000000", seen=4, finished=4),  # another holder
        SlotLease(0, pod="pod-0-0", nonce="ffffffff", seen=4),  # it had not finished yet
    ],
)
async def test_a_lease_is_freed_only_as_it_was_read(read: SlotLease) -> None:
    client: Any = FakeClient()
    held = SlotLease(0, pod="pod-0-0", nonce="ffffffff", seen=4, finished=4)
    meta = {"name": "digits-0", "namespace": "default", "annotations": {**lease.annotations(held), "mine": "stays"}}
    await client.create("Lease", {"metadata": meta, "spec": {"holderIdentity": lease.holder(held)}})

    with pytest.raises(errors.ConflictError):
        await applied(client, ReleaseLease(read), WriteRound(build.a_round(), ""))
    assert client.objects["Lease", "digits-0"]["metadata"]["annotations"]["elasticjob.dev/finished"] == "4"
    assert ("ConfigMap", "digits-rendezvous") not in client.objects
    await applied(client, ReleaseLease(held))

    freed = client.objects["Lease", "digits-0"]
    assert freed["spec"]["holderIdentity"] == ""
    assert freed["metadata"]["annotations"] == {"elasticjob.dev/seen": "4", "mine": "stays"}


# Whole looks at a job whose names are taken


def a_cluster(*others: tuple[str, str], owner: str = "another") -> Any:
    """A client of a cluster that has the job and, of these kinds and names, objects that are not the job's."""
    client = FakeClient()
    job = build.manifest(nodes=3)
    job["metadata"] |= {"namespace": "default", "uid": build.UID, "generation": 1, "resourceVersion": "1"}
    client.objects["ElasticJob", "digits"] = job
    for kind, name in others:
        meta = {"name": name, "namespace": "default", "uid": f"of {owner}", "resourceVersion": "1"}
        client.objects[kind, name] = {"metadata": {**meta, "ownerReferences": [{"uid": owner}]}}
    return client


async def looked(client: Any, times: int = 3) -> list[bool]:
    """So many looks at the job."""
    applier = Applier(client, Pace(1000))
    reconciler = Reconciler(client, queue.Queue(), Reader(client), applier, instance="test")
    return [await reconciler.reconcile(KEY) for _ in range(times)]


def of_kind(client: Any, kind: str) -> list[str]:
    return sorted(name for found, name in client.objects if found == kind)


@pytest.mark.parametrize(
    ("kind", "name"), [("ConfigMap", "digits-rendezvous"), ("ServiceAccount", "digits-worker"), ("Lease", "digits-2")]
)
async def test_anothers_object_in_the_place_of_ours_is_told_once_and_no_round_is_made_up(kind: str, name: str) -> None:
    client = a_cluster((kind, name))

    assert await looked(client) == [False] * 3

    status = client.objects["ElasticJob", "digits"]["status"]
    condition = next(c for c in status["conditions"] if c["type"] == "PodsReady")
    assert (status["state"], status["reason"], condition["reason"], status["round"]) == (
        "Starting",
        "NameTaken",
        "NameTaken",
        0,
    )
    assert name in condition["message"]
    assert [client.objects["Event", e]["reason"] for e in of_kind(client, "Event")] == ["NameTaken"]
    assert of_kind(client, "Pod") == []

    del client.objects[kind, name]
    assert (await looked(client))[-1]
    assert client.objects["ElasticJob", "digits"]["status"]["round"] == 1
    assert len(of_kind(client, "Pod")) == 3


async def test_a_round_that_another_operator_has_made_meanwhile_ends_the_reconcile() -> None:
    client = a_cluster(("ConfigMap", "digits-rendezvous"), owner=build.UID)

    with pytest.raises(errors.ConflictError):
        await applied(client, WriteRound(build.a_round(), ""))


async def test_a_pod_that_an_earlier_job_of_the_name_has_left_only_costs_its_number() -> None:
    client = a_cluster(("Pod", "digits-0-0"))

    foreign = client.objects["Pod", "digits-0-0"]
    foreign["metadata"]["labels"] = names.labels("digits")
    before = copy.deepcopy(foreign)

    assert all(await looked(client))

    assert of_kind(client, "Pod") == ["digits-0-0", "digits-0-1", "digits-1-0", "digits-2-0"]
    assert client.objects["Pod", "digits-0-0"] == before
    assert client.objects["ElasticJob", "digits"]["status"]["nodes"] == 0


async def test_one_pods_name_that_is_taken_does_not_keep_the_others_from_being_made() -> None:
    client: Any = FakeClient()
    await client.create("Pod", {**a_pod_manifest("digits-0-0")})

    problems = await applied(client, *(Create("Pod", a_pod_manifest(f"digits-{n}-0")) for n in range(3)))

    assert [p.reason for p in problems] == ["NameTaken"]
    assert of_kind(client, "Pod") == ["digits-0-0", "digits-1-0", "digits-2-0"]


async def test_a_job_that_is_deleted_while_its_pods_are_made_gets_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "LOOK_SECONDS", 0.0)
    client: Any = FakeClient()
    job = build.a_job()
    held = {"metadata": {"name": job.name, "uid": job.uid, "generation": 1}}
    client._put("ElasticJob", held)
    create = client.create

    async def created(kind: str, manifest: dict[str, Any]) -> Any:
        if len(of_kind(client, "Pod")) == 2:
            client._put("ElasticJob", {**held, "metadata": {**held["metadata"], "deletionTimestamp": "now"}})
        return await create(kind, manifest)

    client.create = created
    with pytest.raises(errors.ConflictError):
        await applied(client, *(Create("Pod", a_pod_manifest(f"digits-{n}-0")) for n in range(9)))

    assert of_kind(client, "Pod") == [f"digits-{n}-0" for n in range(3)]
    client.create = create
    for n in range(3):
        del client.objects["Pod", f"digits-{n}-0"]
    client._put("ElasticJob", held)
    await applied(client, *(Create("Pod", a_pod_manifest(f"digits-{n}-0")) for n in range(9)))
    assert len(of_kind(client, "Pod")) == 9


async def test_a_job_of_very_many_pods_does_not_keep_another_waiting() -> None:
    client: Any = FakeClient()
    applier = Applier(client, Pace(1000))
    many = [Create("Pod", a_pod_manifest(f"digits-{n}-0")) for n in range(1500)]

    large = asyncio.create_task(applier.apply(build.a_job(), many))
    await asyncio.wait([large], timeout=0.2)  # the first burst is over: from now there is one turn after the other
    before = len(client.objects)
    await applier.apply(build.a_job(), [Create("Pod", a_pod_manifest("other-0-0"))])

    assert len(client.objects) - before <= 2 * applying.PARALLEL
    large.cancel()


async def test_the_same_words_are_not_written_again_and_again() -> None:
    client: Any = FakeClient()
    recorder = recording.Recorder(client, instance="test")
    for event in (Event("A", "one"), Event("A", "one"), Event("A", "two"), Event("A", "one")):
        await recorder.record(build.a_job(), event)

    assert sorted(i["note"] for (kind, _), i in client.objects.items() if kind == "Event") == ["one", "two"]


async def test_what_was_told_of_a_job_is_forgotten_with_it() -> None:
    client: Any = FakeClient()
    recorder = recording.Recorder(client, instance="test")
    for name in ("gone", "there"):
        await recorder.record(dataclasses.replace(build.a_job(), name=name), Event("A", "one"))

    recorder.forget(queue.Key("default", "gone"))

    assert [key.name for key in recorder._told] == ["there"]


@pytest.mark.parametrize("said", ["x" * 2000, "数" * 1000, "x" + "数" * 1000, "\ud800" * 2000])
def test_an_event_is_never_longer_than_the_api_server_takes(said: str) -> None:
    note = recording.manifest(build.a_job(), Event("A", said), instance="x", name="x")["note"]

    assert 1022 <= len(note.encode()) <= 1024


async def test_jobs_that_are_gone_are_not_remembered() -> None:
    client = a_cluster()
    reader = Reader(client)
    reader._access_until = {("gone", 1): 0.0}
    applier = Applier(client, Pace(1000))
    reconciler = Reconciler(client, queue.Queue(), reader, applier, instance="test")

    for _ in range(2):
        await reconciler.reconcile(KEY)

    assert set(reader._access_until) == {(build.UID, 1)}


# Errors, and watches that are gone


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, b'{"message": "no", "reason": "NotFound"}', errors.NotFoundError),
        (404, b'{"message": "no"}', errors.UnavailableError),
        (404, b"<html>no such page</html>", errors.UnavailableError),
        (409, b'{"message": "no"}', errors.ConflictError),
        (422, b'{"message": "no"}', errors.RefusedError),
        (403, b'{"message": "no"}', errors.ForbiddenError),
        (403, b'{"message": "no", "details": {"causes": [{"reason": "NamespaceTerminating"}]}}', errors.EndingError),
        (429, b"slow down", errors.UnavailableError),
        (503, b"<html>proxy</html>", errors.UnavailableError),
        (401, b"", errors.ApiError),
        (500, b"[1]", errors.UnavailableError),
    ],
)
def test_each_answer_is_an_error_of_its_own(status: int, body: bytes, kind: type[errors.ApiError]) -> None:
    found = errors.from_response(status, body, "3")

    assert type(found) is kind
    assert found.retry_after == 3


async def test_a_watch_that_nobody_watches_is_missed() -> None:
    tasks = [asyncio.create_task(asyncio.sleep(5), name=f"watcher for {kind}.v1@None") for kind in watchdog.WATCHES[1:]]
    await asyncio.sleep(0)

    assert watchdog.missing() == ("elasticjobs",)
    for task in tasks:
        task.cancel()


async def test_a_status_that_was_decided_on_an_older_job_is_not_written() -> None:
    client = a_cluster()
    stale = copy.deepcopy(client.objects["ElasticJob", "digits"])
    await looked(client)
    newer = copy.deepcopy(client.objects["ElasticJob", "digits"])

    async def get(kind: str, namespace: str, name: str) -> Any:
        return copy.deepcopy(stale if kind == "ElasticJob" else client.objects.get((kind, name)))

    client.get = get
    with pytest.raises(errors.ConflictError):
        await looked(client, 1)
    assert client.objects["ElasticJob", "digits"] == newer


async def test_what_a_newer_version_has_added_to_a_status_outlasts_this_ones_writes() -> None:
    client = a_cluster()
    await looked(client)
    job = client.objects["ElasticJob", "digits"]
    job["status"]["ofTheNextVersion"] = {"much": "more"}
    before = copy.deepcopy(job)

    await looked(client)
    assert client.objects["ElasticJob", "digits"] == before, "nothing to say"
    job = client.objects["ElasticJob", "digits"]
    job["spec"]["nodes"], job["metadata"]["generation"] = 4, 2
    await looked(client)

    status = client.objects["ElasticJob", "digits"]["status"]
    assert (status["wantedNodes"], status["ofTheNextVersion"]) == (4, {"much": "more"})


async def test_in_a_namespace_that_ends_nothing_is_tried_again() -> None:
    client, waiting = a_cluster(), queue.Queue()
    client.refuse["ServiceAccount"] = errors.EndingError(403, "the namespace is being terminated")
    reconciler = Reconciler(client, waiting, Reader(client), Applier(client, Pace(1000)), instance="test")

    await reconciler._attempt(KEY)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting.get(), 0.3)


async def test_what_a_program_says_cannot_forge_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    client: Any = FakeClient()
    said = "loss\x1b[31m\n2030-01-01 CRITICAL all is lost"

    with caplog.at_level("INFO"):
        await recording.Recorder(client, instance="x").record(build.a_job(), Event("WorkersFailed", said))

    assert len(caplog.messages) == 1
    assert "\n" not in caplog.messages[0]
    assert "\x1b" not in caplog.messages[0]
