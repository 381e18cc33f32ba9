"""Builders for what the operator's decisions are given: a job, its pods, Leases and round, in few words."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from elasticjob_operator.api import job as jobs
from elasticjob_operator.api import spec, status
from elasticjob_operator.core import building, counting, observed, pods, situation
from elasticjob_rendezvous.round.lease import SlotLease
from elasticjob_rendezvous.round.record import Member, Notice, Phase, Reason, Record, Result

UID = "11111111-1111-1111-1111-111111111111"
NOW = 1_800_000_000
TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "trainer", "image": "docker.io/elasticjob/trainer:dev"}]}}


def nonce(slot: int, life: int = 0) -> str:
    """The nonce of the process that is a slot's *life*-th."""
    return f"{slot:04x}{life:04x}"


def uid(slot: int, number: int = 0) -> str:
    """The UID of a slot's *number*-th pod."""
    return f"pod-{slot}-{number}"


def manifest(name: str = "digits", **fields: Any) -> dict[str, Any]:
    """An ElasticJob as it is applied; *fields* are those of its spec."""
    return {
        "apiVersion": "elasticjob.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {"minNodes": 1, "maxNodes": 4, "template": TEMPLATE, **fields},
    }


def a_spec(**fields: Any) -> spec.Spec:
    """A spec; *fields* as in the API."""
    return spec.parse(manifest(**fields)["spec"])


def a_job(
    *, known: status.Status | None = None, generation: int = 1, deleting: bool = False, **fields: Any
) -> jobs.Job:
    """A job, with the status *known* of it."""
    return jobs.Job(
        namespace="default",
        name="digits",
        uid=UID,
        generation=generation,
        deleting=deleting,
        spec=a_spec(**fields),
        status=known or status.Status(),
    )


def a_pod(slot: int, number: int = 0, **fields: Any) -> pods.Pod:
    """A pod that runs, if nothing else is said."""
    known: dict[str, Any] = {
        "phase": "Running",
        "ready": True,
        "started": True,
        "created": f"2026-01-01T00:00:{number:02}Z",
    }
    known |= {"template": building.digest(TEMPLATE)}
    return pods.Pod(f"digits-{slot}-{number}", uid(slot, number), slot, number, **{**known, **fields})


def held(slot: int, number: int = 0, *, arrived: int = 1, **fields: Any) -> SlotLease:
    """The Lease of a slot that the process in its *number*-th pod holds, having arrived for a round."""
    store = f"10.0.0.{slot}:4{number:04}"
    return SlotLease(
        slot,
        pod=uid(slot, number),
        nonce=nonce(slot, number),
        arrived=arrived,
        store=store,
        **{"seen": arrived, **fields},
    )


def a_round(
    phase: Phase = Phase.SEALED,
    number: int = 1,
    *,
    plan: Iterable[int] = (0, 1),
    members: Mapping[int, int] | Iterable[int] | None = None,
    **fields: Any,
) -> Record:
    """A round; *members* are slots, each with its process's first life, or slots to lives."""
    lives = members if isinstance(members, Mapping) else dict.fromkeys(plan if members is None else members, 0)
    running = phase in (Phase.SEALED, Phase.FINISHING)
    defaults: dict[str, Any] = {
        "reason": Reason.STARTED,
        "sealed": number if running else number - 1,
        "members": tuple(Member(slot, nonce(slot, life)) for slot, life in sorted(lives.items())),
        "store": "10.0.0.0:40000",
        "writer": "operator",
        "min_nodes": 1,
        "result": Result.SUCCEEDED if phase is Phase.CLOSED else Result.NONE,
    }
    if phase is Phase.OPEN and number == 1:
        defaults |= {"members": (), "store": ""}
    return Record(job=UID, number=number, phase=phase, plan=frozenset(plan), **{**defaults, **fields})


def a_notice(text: str = "1.1", grace: int = 30) -> Notice:
    """A wish for a checkpoint."""
    return Notice(text, grace)


def seen(
    record: Record | None = None,
    *,
    job: jobs.Job | None = None,
    leases: Iterable[SlotLease] = (),
    having: Iterable[pods.Pod] = (),
    **fields: Any,
) -> observed.Observed:
    """All that was read of a job. Slots below maxNodes that have no Lease given have a free one."""
    job = job or a_job()
    most = job.spec.max_nodes if isinstance(job.spec, spec.Spec) else 0
    found = {slot: SlotLease(slot) for slot in range(most)} | {lease.slot: lease for lease in leases}
    return observed.Observed(
        job=job,
        round=observed.Round(record, "1" if record else ""),
        leases=found,
        pods=tuple(having),
        **fields,
    )


def running(slots: Iterable[int] = (0, 1), *, job: jobs.Job | None = None, **fields: Any) -> observed.Observed:
    """A job whose first round runs on *slots*."""
    slots = tuple(slots)
    record = fields.pop("record", None) or a_round(plan=slots)
    return seen(
        record,
        job=job or a_job(nodes=len(slots), known=known_of(record)),
        leases=fields.pop("leases", [held(slot) for slot in slots]),
        having=fields.pop("having", [a_pod(slot) for slot in slots]),
        **fields,
    )


def known_of(record: Record, **fields: Any) -> status.Status:
    """The status that goes with a round which was seen a minute ago."""
    defaults = {
        "observed_generation": 1,
        "round": record.number,
        "round_phase": record.phase.value,
        "round_reason": record.reason.value,
        "round_time": NOW - 60,
        "planned": len(record.plan),
        "wanted": len(record.plan),
        "start_time": NOW - 600,
    }
    return status.Status(**{**defaults, **fields})


def at(read: observed.Observed, *, now: int = NOW, **fields: Any) -> situation.Situation:
    """The situation that a policy is given."""
    record, wish = read.round.record, read.job.spec
    assert record is not None
    assert isinstance(wish, spec.Spec)
    counters = counting.count(read, record, wish.failure_policy, now)
    if fields:
        counters = dataclasses.replace(counters, **fields)
    return situation.Situation(read, wish, record, counters, now)
