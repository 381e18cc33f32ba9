"""A job under a real HorizontalPodAutoscaler, which writes nothing but ``/scale``."""

import pathlib

import yaml

from cluster import LocalCluster
from elasticjob_operator.kube import client as clients
from support.operator_cluster import Operator
from support.operator_job import Job
from support.operator_metrics import Metrics, autoscaler
from support.operator_simulation import Simulation


async def test_an_autoscaler_grows_and_shrinks_a_job_through_its_scale(
    control_plane: LocalCluster,
    admin: clients.Client,
    simulation: Simulation,
    operator: Operator,
    tmp_path: pathlib.Path,
) -> None:
    server = yaml.safe_load(control_plane.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    this_machine = server.removeprefix("https://").rpartition(".")[0] + ".254"
    operator.start()
    job, metrics = Job(admin, simulation), Metrics()
    await job.apply(minNodes=1, maxNodes=4, nodes=1)
    await job.trains(1)
    metrics.value = 25

    async with metrics.serving(admin, this_machine, tmp_path):
        where = f"/apis/autoscaling/v2/namespaces/{job.namespace}/horizontalpodautoscalers"
        await admin.request("POST", where, body=autoscaler("digits", least=1, most=4, per_node=10))
        grown = await job.trains(3)
        metrics.value = 5
        shrunk = await job.trains(1)

    assert (grown["resizes"], shrunk["resizes"]) == (1, 2)
    assert (shrunk["failures"], shrunk["disruptions"]) == (0, 0)
