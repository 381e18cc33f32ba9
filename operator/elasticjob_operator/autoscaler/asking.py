"""Phase 8: pods left pending on purpose, so that a cluster autoscaler (Cluster Autoscaler, Karpenter) adds cluster
nodes.

Only up to the administrator's limit, and only for jobs that could use them: first the minimums that found no room.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import decision

if TYPE_CHECKING:
    from elasticjob_operator.autoscaler import drafts, settings, snapshot

LACKING = {decision.Reason.WAITING, decision.Reason.PREEMPTED, decision.Reason.TOO_LARGE, decision.Reason.NO_CAPACITY}
"""What more cluster nodes would cure; quotas and senseless sizes they would not."""


def ask(
    grants: list[decision.Grant], jobs: list[drafts.Draft], snap: snapshot.Snapshot, rules: settings.Settings
) -> list[decision.Grant]:
    """The same grants, some with pods to leave pending, by priority and then by age."""
    left = rules.pending_limit
    if left <= 0 or not snap.jobs:
        return grants
    out = {grant.job: grant for grant in grants}
    for draft in sorted(jobs, key=lambda d: (-d.job.priority, -d.job.age, d.job.name)):
        grant, wanted = out[draft.job.name], draft.job.minimum
        lacking = grant.reason in LACKING and draft.job.ceiling is None
        if lacking and 0 < wanted * draft.job.accelerators <= left:
            left -= wanted * draft.job.accelerators
            out[grant.job] = dataclasses.replace(grant, ask=wanted)
    return [out[grant.job] for grant in grants]
