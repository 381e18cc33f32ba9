"""Where agents of torch's own backends meet: a Service, a ConfigMap, or an etcd of the job's own; what these look like.

Of each backend one object besides the pods; ``kubernetes`` has none here, as its round and Leases are ``children``.
"""

from collections.abc import Iterator
from typing import Any

from elasticjob_operator.api import job as jobs
from elasticjob_operator.api import names
from elasticjob_operator.api.rendezvous import Backend, Rendezvous
from elasticjob_operator.core.actions import Action, Create, DeletePod
from elasticjob_operator.core.observed import Observed

STORE_PORT = 29400
"""torch's own default for c10d."""

ETCD_PORT, ETCD_PEER_PORT = 2379, 2380
ETCD_USER = 65532
"""Any but root: etcd needs nothing but its own folder."""


def endpoint(job: jobs.Job, wish: Rendezvous) -> str:
    """torchrun's ``--rdzv-endpoint``."""
    if wish.uses_api:
        return f"{job.namespace}/{job.name}"
    if wish.hosted:
        return f"{names.rendezvous_service(job.name)}.{job.namespace}.svc:{STORE_PORT}"
    return wish.etcd_endpoint or f"{names.etcd(job.name)}.{job.namespace}.svc:{ETCD_PORT}"


def place(job: jobs.Job, wish: Rendezvous) -> dict[str, Any] | None:
    """The object that has to be there before the pods, if the backend needs one."""
    if wish.backend is Backend.KUBERNETES_DYNAMIC:
        return {**jobs.head(job, "v1", "ConfigMap", names.dynamic(job.name)), "data": {}}
    if wish.hosted:
        return _service(job, names.rendezvous_service(job.name), names.labels(job.name, 0), STORE_PORT)
    return _service(job, names.etcd(job.name), _etcd_labels(job), ETCD_PORT) if wish.etcd_managed else None


def etcd_actions(observed: Observed, wish: Rendezvous, *, needed: bool) -> Iterator[Action]:
    """One etcd for as long as the job has nodes that need it. Its data go with its pod."""
    pod = observed.etcd
    if pod is not None:
        if not pod.deleting and (pod.terminal or not needed):
            yield DeletePod(pod.name, pod.uid, "it has ended" if pod.terminal else "no node needs it")
    elif wish.etcd_managed and needed:
        yield Create("Pod", etcd_pod(observed.job, observed.installation.etcd_image))


def etcd_pod(job: jobs.Job, image: str) -> dict[str, Any]:
    """One etcd with the v2 API, which torch speaks and etcd 3.6 has no more. Anyone who reaches it may use it."""
    own = f"http://127.0.0.1:{ETCD_PEER_PORT}"
    flags = {
        "name": "etcd",
        "data-dir": "/data/etcd",
        "enable-v2": "true",
        "listen-client-urls": f"http://0.0.0.0:{ETCD_PORT}",
        "advertise-client-urls": f"http://{names.etcd(job.name)}.{job.namespace}.svc:{ETCD_PORT}",
        "listen-peer-urls": own,
        "initial-advertise-peer-urls": own,
        "initial-cluster": f"etcd={own}",
    }
    head = jobs.head(job, "v1", "Pod", names.etcd(job.name))
    head["metadata"]["labels"] = _etcd_labels(job)
    return {
        **head,
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 5,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": ETCD_USER,
                "runAsGroup": ETCD_USER,
                "fsGroup": ETCD_USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "etcd",
                    "image": image,
                    "command": ["etcd", *(f"--{key}={value}" for key, value in flags.items())],
                    "ports": [{"name": "client", "containerPort": ETCD_PORT}],
                    "readinessProbe": {"httpGet": {"path": "/health", "port": "client"}, "periodSeconds": 1},
                    "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
            "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}],
        },
    }


def _etcd_labels(job: jobs.Job) -> dict[str, str]:
    return {**names.labels(job.name), names.PART_LABEL: "etcd"}


def _service(job: jobs.Job, name: str, selector: dict[str, str], port: int) -> dict[str, Any]:
    """A name for pods' own addresses, known before they are ready: they become it by meeting there."""
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": selector,
        "ports": [{"port": port}],
    }
    return {**jobs.head(job, "v1", "Service", name), "spec": spec}
