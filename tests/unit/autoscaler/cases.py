"""Short ways to write snapshots, for tables of cases."""

from __future__ import annotations

import dataclasses
from typing import Any

from elasticjob_operator.autoscaler import curves, deciding, decision, settings, snapshot


def nodes(count: int, each: int = 4, **fields: Any) -> tuple[snapshot.ClusterNode, ...]:
    """`count` cluster nodes `a0`, `a1` … with `each` accelerators."""
    prefix = fields.pop("prefix", "a")
    return tuple(snapshot.ClusterNode(f"{prefix}{i}", each, **fields) for i in range(count))


def job(name: str, minimum: int = 1, maximum: int = 8, **fields: Any) -> snapshot.Job:
    """A job an hour old whose throughput grows linearly, unless told otherwise; pods may be given as `on={"a0": 2}`."""
    pods = fields.pop("on", {})
    if pods:
        fields.setdefault("granted", sum(pods.values()))
        fields["placement"] = tuple(snapshot.Placement(*item) for item in pods.items())
    fields.setdefault("age", 3600.0)
    fields.setdefault("curves", {"": linear(64)})
    return snapshot.Job(name=name, minimum=minimum, maximum=maximum, **fields)


def linear(reach: int, each: float = 1.0) -> curves.Curve:
    """n times as fast on n nodes."""
    return curves.Curve(tuple(each * n for n in range(1, reach + 1)))


def decide(
    cluster: tuple[snapshot.ClusterNode, ...],
    *jobs: snapshot.Job,
    rules: settings.Settings = deciding.DEFAULT,
    **fields: Any,
) -> dict[str, decision.Grant]:
    """Grants by job."""
    made = deciding.decide(snapshot.Snapshot(cluster_nodes=cluster, jobs=jobs, **fields), rules)
    return {grant.job: grant for grant in made.grants}


def sizes(grants: dict[str, decision.Grant]) -> dict[str, int]:
    """Nodes by job."""
    return {name: grant.nodes for name, grant in grants.items()}


def after(before: tuple[snapshot.Job, ...], grants: dict[str, decision.Grant]) -> tuple[snapshot.Job, ...]:
    """The jobs once a decision has been carried out."""
    return tuple(
        dataclasses.replace(job, granted=grant.nodes, placement=grant.placement, stood=job.stood * (not changed))
        for job in before
        for grant in [grants[job.name]]
        for changed in [grant.nodes != job.granted]
    )
