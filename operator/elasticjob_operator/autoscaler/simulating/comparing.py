"""One trace under one policy, called by its name: ours, with what an administrator has set, or one to compare with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import deciding, settings
from elasticjob_operator.autoscaler.simulating import inputs, jobs, policies, replaying, results

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

POLICIES = ("ours", "equal", "tiresias", "optimus")


def run(
    name: str,
    trace: list[jobs.TraceJob],
    events: list[replaying.Event],
    options: replaying.Options,
    *,
    knowledge: replaying.Knowledge | None = None,
    rules: settings.Settings = deciding.DEFAULT,
) -> results.Result:
    """The replay's result. Only ours knows rules, queues, priorities, and nodes that are not one accelerator each.

    Raises:
        inputs.InputError: the policy cannot say anything of such a trace or cluster.
    """
    kinds = {node.kind for event in events for node in event.cluster_nodes}
    if name != "ours" and (len(kinds) > 1 or any(job.accelerators != 1 or job.kind for job in trace)):
        raise inputs.InputError(f"{name}: knows only nodes of one accelerator, and one type of them")
    oracle: dict[str, jobs.Running] = {}
    known: Mapping[str, Callable[[], replaying.Policy]] = {
        "ours": lambda: policies.ours(rules),
        "equal": lambda: policies.equal,
        "tiresias": lambda: policies.tiresias({job.name: job.requested for job in trace}),
        "optimus": lambda: policies.optimus(oracle),
    }
    replay = replaying.Replay(trace, events, known[name](), knowledge, options)
    replay.share(oracle)
    return replay.run()
