"""A metrics server of one metric, whose value a test sets: all that a HorizontalPodAutoscaler asks."""

import contextlib
import datetime as dt
import pathlib
import ssl
import subprocess
from collections.abc import AsyncIterator

from aiohttp import web

from elasticjob_operator.kube import client as clients

GROUP, VERSION, METRIC = "external.metrics.k8s.io", "v1beta1", "waiting"
SERVICE = {"name": "metrics", "namespace": "kube-system"}


class Metrics:
    """The external metrics API."""

    def __init__(self) -> None:
        self.value = 0

    @contextlib.asynccontextmanager
    async def serving(self, admin: clients.Client, host: str, folder: pathlib.Path) -> AsyncIterator[None]:
        """Answer on *host*, an address of this machine that the API server reaches, as a part of its API."""
        app = web.Application()
        app.router.add_get(f"/apis/{GROUP}/{VERSION}", self._kinds)
        app.router.add_get(f"/apis/{GROUP}/{VERSION}/namespaces/{{namespace}}/{METRIC}", self._values)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, host, 0, ssl_context=_tls(folder)).start()
        port = runner.addresses[0][1]
        try:
            await _register(admin, host, port)
            yield
        finally:
            await admin.request("DELETE", f"/apis/apiregistration.k8s.io/v1/apiservices/{VERSION}.{GROUP}")
            await admin.request("DELETE", "/api/v1/namespaces/kube-system/services/metrics")
            await runner.cleanup()

    async def _kinds(self, _: web.Request) -> web.Response:
        return web.json_response({"kind": "APIResourceList", "groupVersion": f"{GROUP}/{VERSION}", "resources": []})

    async def _values(self, _: web.Request) -> web.Response:
        now = dt.datetime.now(tz=dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        item = {"metricName": METRIC, "metricLabels": {}, "timestamp": now, "value": str(self.value)}
        kind = {"kind": "ExternalMetricValueList", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}}
        return web.json_response({**kind, "items": [item]})


def autoscaler(name: str, *, least: int, most: int, per_node: int) -> dict[str, object]:
    """A HorizontalPodAutoscaler that wants a node for every *per_node* of the metric, at once."""
    at_once = {"stabilizationWindowSeconds": 0}
    target = {"type": "AverageValue", "averageValue": str(per_node)}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "elasticjob.dev/v1alpha1", "kind": "ElasticJob", "name": name},
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": [{"type": "External", "external": {"metric": {"name": METRIC}, "target": target}}],
            "behavior": {"scaleUp": at_once, "scaleDown": at_once},
        },
    }


async def _register(admin: clients.Client, host: str, port: int) -> None:
    service = {"metadata": {"name": SERVICE["name"]}, "spec": {"type": "ExternalName", "externalName": host}}
    await admin.request("POST", "/api/v1/namespaces/kube-system/services", body=service)
    spec = {
        "group": GROUP,
        "version": VERSION,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {**SERVICE, "port": port},
    }
    body = {"metadata": {"name": f"{VERSION}.{GROUP}"}, "spec": spec}
    await admin.request("POST", "/apis/apiregistration.k8s.io/v1/apiservices", body=body)


def _tls(folder: pathlib.Path) -> ssl.SSLContext:
    """A certificate of nobody's: the API server is told not to look."""
    key, certificate = folder / "metrics.key", folder / "metrics.crt"
    new = (
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=metrics",
    )
    subprocess.run(["openssl", "req", *new, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context
