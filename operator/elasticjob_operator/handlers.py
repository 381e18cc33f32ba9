"""kopf's part: the watches, each of which only puts jobs on the queue.

kopf swallows what a handler raises and writes what it returns into the watched object, so the handlers catch everything
and return nothing. It is told to write nothing at all: no events, no annotations, no finalizers, no peering.
"""

import dataclasses
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import kopf

from elasticjob_operator.api import names
from elasticjob_operator.kube.noticing import Notice

SERVER_SECONDS, CLIENT_SECONDS = 300, 330
"""A watch is begun anew after so long, on the server's side and, should that fail, on ours."""

logger = logging.getLogger(__name__)


def settings() -> kopf.OperatorSettings:
    """kopf with everything off that writes or that we do ourselves."""
    found = kopf.OperatorSettings()
    found.posting.enabled = False
    found.scanning.disabled = True  # the kinds are known, and listing all CRDs is a right we don't ask for
    found.watching.server_timeout = SERVER_SECONDS
    found.watching.client_timeout = CLIENT_SECONDS
    found.watching.chunk_size = 500
    found.networking.request_timeout = 30
    found.execution.max_workers = 1  # no handler is synchronous
    for plural in ("pods", "configmaps"):
        found.watching.label_selectors[plural] = names.SELECTOR
    found.watching.label_selectors["leases"] = f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY}"
    return found


def registry(notice: Notice, *, cluster_nodes: bool = False) -> kopf.OperatorRegistry:
    """The handlers: one a kind."""
    found = kopf.OperatorRegistry()
    kopf.on.login(registry=found)(_login)
    kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=found, id="jobs")(_handler("ElasticJob", notice))
    kopf.on.event("", "v1", "pods", registry=found, id="pods")(_handler("Pod", notice))
    kopf.on.event("", "v1", "configmaps", registry=found, id="rounds")(_handler("ConfigMap", notice))
    kopf.on.event("coordination.k8s.io", "v1", "leases", registry=found, id="slots")(_handler("Lease", notice))
    if cluster_nodes:
        kopf.on.event("", "v1", "nodes", registry=found, id="cluster-nodes")(_handler("Node", notice))
    return found


def _handler(kind: str, notice: Notice) -> Callable[..., Any]:
    async def handle(event: Mapping[str, Any], **_: object) -> None:
        try:
            notice.event(kind, event)
        except Exception:  # kopf would drop it without a word
            logger.exception("an event of a %s was not understood", kind)

    return handle


def _login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    """The same choice as the client's: the pod's ServiceAccount, unless a kubeconfig is named."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if host and not os.environ.get("KUBECONFIG"):
        found = kopf.login_with_service_account(**kwargs)
        # kopf asks DNS for kubernetes.default.svc; the address is known without, and DNS may be what is down.
        server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        return found and dataclasses.replace(found, server=server)
    return kopf.login_with_kubeconfig(**kwargs)
