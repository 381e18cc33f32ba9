"""What is left in the end of a job's life in the simulated world, to be compared with another way to the same end."""

from typing import Any

from support.operator_world import World


def outcome(world: World) -> dict[str, Any]:
    """All that is there in the end, but for when it happened, and in how many rounds."""
    passing = ("Time", "Since", "round", "roundReason", "reason", "conditions", "countedPods")
    status = {k: v for k, v in world.status.items() if not k.endswith(passing)}
    for part in ("lastResize", "lastFailure"):
        status[part] = {k: v for k, v in status.get(part, {}).items() if not k.lower().endswith("time")}
    status["conditions"] = {c["type"]: c["status"] for c in world.status["conditions"]}
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
