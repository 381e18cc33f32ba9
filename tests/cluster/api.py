"""The few API requests that the cluster itself makes: is it ready, is a node ready, tell a node that it has GPUs.

A request by kubectl costs a process and a tenth of a second of processor time; these poll, so they go over one plain
connection each. Tests and users have kubectl and the real client library.
"""

import http.client
import json
import ssl
from dataclasses import dataclass
from typing import Any

from cluster import addresses, errors, pki

SECONDS = 5


@dataclass(frozen=True)
class Api:
    """The API server of one cluster, spoken to as its administrator."""

    host: str
    authority: pki.Authority
    admin: pki.Pair

    def ready(self) -> bool:
        """Whether the API server says that it is ready; one that cannot be reached is not."""
        try:
            return self._request("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def get(self, path: str) -> dict[str, Any] | None:
        """Read one object or list; None when there is no such thing, or no answer."""
        try:
            status, body = self._request("GET", path)
        except (OSError, http.client.HTTPException):
            return None
        return json.loads(body) if status == 200 else None

    def patch(self, path: str, change: object) -> None:
        """Merge a change into an object."""
        status, body = self._request("PATCH", path, json.dumps(change), "application/merge-patch+json")
        if status != 200:
            raise errors.ClusterError(f"PATCH {path} was answered {status}: {body.decode(errors='replace')[:500]}")

    def node_renewed(self, name: str) -> str:
        """When the node last said that it is there; empty if it never did."""
        lease = self.get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}") or {}
        return str(lease.get("spec", {}).get("renewTime", ""))

    def node_ready(self, name: str) -> bool:
        """Whether the node is registered and Ready; for some time after it is lost it still seems to be."""
        node = self.get(f"/api/v1/nodes/{name}") or {}
        conditions = node.get("status", {}).get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def _request(self, method: str, path: str, body: str | None = None, kind: str = "") -> tuple[int, bytes]:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        context.load_cert_chain(self.admin.certificate, self.admin.key)
        connection = http.client.HTTPSConnection(self.host, addresses.API_PORT, context=context, timeout=SECONDS)
        try:
            connection.request(method, path, body, {"Content-Type": kind} if kind else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
