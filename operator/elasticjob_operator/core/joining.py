"""What a pod's torchrun is told of its rendezvous, backend by backend: environment variables that it reads as flags."""

from collections.abc import Mapping

from elasticjob_operator.api import job as jobs
from elasticjob_operator.api import names
from elasticjob_operator.api.rendezvous import Backend, Rendezvous
from elasticjob_operator.api.spec import Spec
from elasticjob_operator.core import places

MAX_RESTARTS = 1_000_000
"""torchrun counts restarts for each node by itself, membership changes included; the job's own budget decides."""

SHARE_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
"""With one store for agents and workers, torch's default, the first round with a newcomer ends the job (torch 2.15)."""

_DYNAMIC = (Backend.C10D, Backend.ETCD_V2, Backend.KUBERNETES_DYNAMIC)


def values(job: jobs.Job, wish: Spec, slot: int) -> dict[str, str]:
    """Variables and their values for the agent of a slot."""
    rendezvous = wish.rendezvous
    found = {
        "PET_RDZV_BACKEND": rendezvous.backend.value,
        "PET_RDZV_ENDPOINT": places.endpoint(job, rendezvous),
        "PET_RDZV_ID": job.uid if rendezvous.told else f"{job.uid}.{job.status.restarts}",
        "PET_NNODES": f"{wish.min_nodes}:{wish.max_nodes}",
        "PET_NPROC_PER_NODE": wish.nproc_per_node,
        "PET_MAX_RESTARTS": str(_restarts(wish)),
        "PET_STANDALONE": "0",  # all that a template's envFrom could still turn torchrun away from us with
        names.SLOT_ENV: str(slot),
    }
    if conf := _conf(rendezvous, slot):
        found["PET_RDZV_CONF"] = ",".join(f"{key}={value}" for key, value in sorted(conf.items()))
    if rendezvous.backend is Backend.STATIC:
        found["PET_NODE_RANK"] = str(slot)
    if rendezvous.backend in _DYNAMIC:
        found[SHARE_STORE] = "1"
    return found


def fields(wish: Rendezvous) -> dict[str, str]:
    """Variables and the pod's fields that they take their values from."""
    if wish.told:
        return {"ELASTICJOB_POD_UID": "metadata.uid", "ELASTICJOB_POD_IP": "status.podIP"}
    return {"PET_LOCAL_ADDR": "status.podIP"}


def _restarts(wish: Spec) -> int:
    """How often torchrun may start workers again by itself, before its pod fails.

    Where the operator is told nothing, torchrun's own counter is all that ends a script that always crashes; and
    ``static`` agents can't agree on starting again, so there the operator starts all of them anew.
    """
    if wish.rendezvous.told:
        return MAX_RESTARTS
    return wish.failure_policy.max_failures if wish.rendezvous.elastic else 0


def _conf(wish: Rendezvous, slot: int) -> Mapping[str, str]:
    """``--rdzv-conf``. torch guesses by host names who hosts c10d's store, and may find nobody or two."""
    if wish.backend is Backend.C10D:
        return {**wish.conf, "is_host": "1" if slot == 0 else "0"}
    return wish.conf
