"""What is left at a point of a job's life, to be compared with another way to the same point."""

from collections.abc import Mapping
from typing import Any

from elasticjob_operator.api import names
from elasticjob_operator.kube import client as clients
from elasticjob_rendezvous.round import lease
from support.operator_simulation import Simulation
from support.operator_world import World

Picture = Mapping[str, Any]

_PASSING = ("Time", "Since", "round", "roundReason", "reason", "conditions", "countedPods")
"""Fields of a status that tell when something happened, or in how many rounds."""

_AT_THE_TIME = ("progress", "refilled")
"""Those that tell how far the training was by then."""


def outcome(world: World) -> dict[str, Any]:
    """All that is there in the end, but for when it happened, and in how many rounds."""
    status = _lasting(world.status)
    record = world.record
    assert record is not None
    return {
        "status": status,
        "round": (record.phase, record.plan, record.member_slots, record.failures, record.result),
        "pods": {name: (pod.phase, pod.live) for name, pod in world.pods.items()},
        "leases": {slot: (lease.free, lease.finished) for slot, lease in world.leases.items()},
        "access": world.access,
        "deleted": world.deleted,
    }


async def picture(admin: clients.Client, simulation: Simulation) -> Picture:
    """The same of a job on a real API server."""
    found = await admin.get("ElasticJob", simulation.namespace, simulation.job)
    record = await simulation.round()
    status = {k: v for k, v in ((found or {}).get("status") or {}).items() if k not in _AT_THE_TIME}
    leases = {item["metadata"]["name"]: item for item in await simulation.leases()}
    return {
        "status": _lasting(status),
        "round": record and (record.phase, record.plan, record.member_slots, record.failures, record.result),
        "pods": sorted((p["metadata"]["labels"][names.SLOT_LABEL], _phase(p)) for p in await simulation.pods()),
        "leases": {name: (bool(item["spec"].get("holderIdentity")), _finished(item)) for name, item in leases.items()},
    }


def at_rest(found: Picture, nodes: int) -> bool:
    """Whether everything has come to *nodes*, however slow who has to do it: what stands still may only be waiting."""
    status, record = found["status"], found["round"]
    conditions, held = status["conditions"], sum(holder for holder, _ in found["leases"].values())
    if [phase for _, phase in found["pods"]] != ["Running"] * nodes or held != nodes:
        return False
    if not nodes:
        return bool(conditions.get("Suspended") == "True")
    phase, plan, members, *_ = record
    calm = (conditions.get("PodsReady"), conditions.get("Resizing", "False")) == ("True", "False")
    return bool(calm and status["roundPhase"] == phase.value == "Sealed" and plan == members and len(plan) == nodes)


def _phase(pod: Mapping[str, Any]) -> str:
    return "Ending" if pod["metadata"].get("deletionTimestamp") else str(pod["status"].get("phase"))


def _finished(item: Mapping[str, Any]) -> int:
    return lease.parse(0, item["spec"].get("holderIdentity"), item["metadata"].get("annotations")).finished


def _lasting(status: Mapping[str, Any]) -> dict[str, Any]:
    found = {k: v for k, v in status.items() if not k.endswith(_PASSING)}
    for part in ("lastResize", "lastFailure", "allocation"):
        found[part] = {k: v for k, v in status.get(part, {}).items() if not k.lower().endswith(("time", "seconds"))}
    found["conditions"] = {c["type"]: c["status"] for c in status.get("conditions") or ()}
    return found
