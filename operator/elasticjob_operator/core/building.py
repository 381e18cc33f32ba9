"""The pod of a slot: the user's template, with what torchrun needs to find its peers and a restricted namespace asks.

What the user has set stays, except the few things that would break the job: the environment that names the rendezvous,
and what decides who the pod is. ``overridden`` names them, so that the user can be told.
"""

import copy
import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from elasticjob_operator.api import job as jobs
from elasticjob_operator.api import names, spec
from elasticjob_operator.core import joining, placing, pods

STOP_SECONDS = 30
"""What torchrun takes at most to stop its workers (its own limit), on top of the time for a checkpoint."""

TOKEN_SECONDS = 3607
"""Lifetime of the pods' token, as the API server's own admission sets it."""

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path, not a secret
SHM_PATH = "/dev/shm"  # noqa: S108 - the very folder that torch's workers share memory in

_OURS = frozenset({
    "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID", "PET_NNODES", "PET_NPROC_PER_NODE", "PET_MAX_RESTARTS",
    "PET_RDZV_CONF",
    "PET_NODE_RANK", "PET_STANDALONE", "PET_MASTER_ADDR", "PET_MASTER_PORT", "MASTER_ADDR", "MASTER_PORT", "RANK",
    "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE",
})  # fmt: skip
"""What the operator or torchrun decides; set in a template they would contradict it."""

_NO_MESH = {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"}
"""A mesh's proxy stands between the workers' own connections, and outlives the trainer: only for who asks for it."""

_OUR_PREFIXES = ("ELASTICJOB_", "TORCHELASTIC_")

_OUR_FLAG = re.compile(r"--(standalone|nnodes|node-rank|master-(addr|port)|max-restarts|rdzv-\w+)")
"""Flags of torchrun's that take the place of what the operator tells it in the environment."""

_TORCHRUN = ("torchrun", "torch.distributed.run")


def digest(template: Mapping[str, Any], avoid: Sequence[str] = ()) -> str:
    """What tells one template, with the cluster nodes that its pods avoid, from another."""
    whole = [template, *avoid] if avoid else template
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]


def overridden(wish: spec.Spec) -> tuple[str, ...]:
    """Names in the template's environment that the operator takes out, because they would contradict it."""
    containers = wish.template["spec"]["containers"]
    env = containers[pods.trainer(containers)].get("env") or ()
    return tuple(sorted({e["name"] for e in env if _is_ours(e.get("name", ""))}))


def overriding(wish: spec.Spec) -> tuple[str, ...]:
    """Flags in the trainer's command that override the operator's word to torchrun; those of the script are its own."""
    containers = wish.template["spec"]["containers"]
    trainer = containers[pods.trainer(containers)]
    words = " ".join(str(word) for part in ("command", "args") for word in trainer.get(part) or ()).split()
    after = itertools.dropwhile(lambda word: not word.endswith(_TORCHRUN), words)
    flags = (word.partition("=")[0].replace("_", "-") for word in itertools.takewhile(_before_script, after))
    return tuple(sorted({flag for flag in flags if _OUR_FLAG.fullmatch(flag)}))


def _before_script(word: str) -> bool:
    return not word.endswith(".py")


def pod(
    job: jobs.Job,
    wish: spec.Spec,
    slot: int,
    number: int,
    avoid: Sequence[str] = (),
    *,
    near: Sequence[str] = (),
    firm: bool = False,
) -> dict[str, Any]:
    """The manifest of the *number*-th pod of a slot, which keeps away from the cluster nodes in *avoid*.

    *near* are labels of cluster nodes by which the job's pods are drawn to each other (``placing.together``).
    *firm*: the pods of the minimum must be on cluster nodes that stay, not only had better be.
    """
    template = copy.deepcopy(dict(wish.template))
    if near:
        template["spec"]["affinity"] = placing.together(template["spec"].get("affinity"), names.labels(job.name), near)
    meta = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.pod(job.name, slot, number),
            "namespace": job.namespace,
            "labels": {**(meta.get("labels") or {}), **names.labels(job.name, slot)},
            "annotations": {**_annotations(meta), **_own_annotations(job, wish, avoid)},
            "ownerReferences": [jobs.owner(job)],
        },
        "spec": _placed(_spec(job, wish, template["spec"], slot), avoid, minimum=slot < wish.min_nodes, firm=firm),
    }


def _annotations(meta: Mapping[str, Any]) -> dict[str, str]:
    """The template's annotations, and no service mesh's proxy unless they, or the labels, say something of it."""
    known = {*(meta.get("labels") or {}), *(meta.get("annotations") or {})}
    unsaid = {key: value for key, value in _NO_MESH.items() if key not in known}
    return {**unsaid, **(meta.get("annotations") or {})}


def _own_annotations(job: jobs.Job, wish: spec.Spec, avoid: Sequence[str]) -> dict[str, str]:
    found = {names.TEMPLATE_ANNOTATION: digest(wish.template, avoid)}
    return found if wish.rendezvous.told else {**found, names.RUN_ANNOTATION: str(job.status.restarts)}


def _placed(data: dict[str, Any], avoid: Sequence[str], *, minimum: bool, firm: bool) -> dict[str, Any]:
    """What a job cannot do without is better off where it stays."""
    if minimum:
        wish = placing.firm if firm else placing.steady
        data = {**data, "affinity": wish(data.get("affinity"))}
    return {**data, "affinity": placing.ruled_out(data.get("affinity"), avoid)} if avoid else data


def _spec(job: jobs.Job, wish: spec.Spec, data: dict[str, Any], slot: int) -> dict[str, Any]:
    trainer = data["containers"][pods.trainer(data["containers"])]
    kept = [e for e in trainer.get("env") or () if not _is_ours(e.get("name", ""))]
    trainer["env"] = [*_environment(job, wish, slot), *kept]  # ours first: the user's may refer to it
    _mount(data, trainer, "elasticjob-shm", SHM_PATH, {"emptyDir": {"medium": "Memory"}})
    if wish.rendezvous.uses_api:
        _mount(data, trainer, "elasticjob-token", TOKEN_PATH, _token(), read_only=True)
    trainer.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")  # so that its end says why
    data["serviceAccountName"] = data.get("serviceAccountName") or names.worker(job.name)
    data["automountServiceAccountToken"] = False  # the trainer has its own mount; side cars have no business there
    data["restartPolicy"] = "Never"
    data.setdefault("terminationGracePeriodSeconds", wish.checkpoint_grace + STOP_SECONDS)
    data.setdefault("enableServiceLinks", False)
    _restrict(data)
    return data


def _is_ours(name: str) -> bool:
    return name in _OURS or name.startswith(_OUR_PREFIXES)


def _environment(job: jobs.Job, wish: spec.Spec, slot: int) -> list[dict[str, Any]]:
    return [
        *({"name": name, "value": value} for name, value in joining.values(job, wish, slot).items()),
        *(
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in joining.fields(wish.rendezvous).items()
        ),
    ]


def _mount(
    data: dict[str, Any],
    container: dict[str, Any],
    name: str,
    path: str,
    source: dict[str, Any],
    *,
    read_only: bool = False,
) -> None:
    """Mount *source* at *path* of the container, unless the user has mounted something there."""
    if any(mount.get("mountPath") == path for mount in container.get("volumeMounts") or ()):
        return
    mount = {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    data["volumes"] = [*(data.get("volumes") or ()), {"name": name, **source}]


def _token() -> dict[str, Any]:
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    return {"projected": {"sources": sources}}


def _restrict(data: dict[str, Any]) -> None:
    """What the Pod Security level *restricted* asks for, wherever the user has left it out."""
    containers = [*(data.get("initContainers") or ()), *data["containers"]]
    pod_level = data["securityContext"] = dict(data.get("securityContext") or {})
    root = any((c.get("securityContext") or {}).get("runAsUser") == 0 for c in (data, *containers))
    if not root:
        pod_level.setdefault("runAsNonRoot", True)
    pod_level.setdefault("seccompProfile", {"type": "RuntimeDefault"})
    for container in containers:
        context = container["securityContext"] = dict(container.get("securityContext") or {})
        if context.get("privileged"):
            continue  # the API server refuses the combination
        context.setdefault("allowPrivilegeEscalation", False)
        context.setdefault("capabilities", {"drop": ["ALL"]})
