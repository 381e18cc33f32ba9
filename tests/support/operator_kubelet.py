"""A kubelet of this machine: what is a pod to the API is a real torchrun here, told all it knows by the pod's manifest.

For backends that need a newer torch than the one in the images. There are no pod addresses: everything is on loopback,
and a Service's name stands for a free port of it.
"""

import asyncio
import pathlib
import re
from collections.abc import Callable
from typing import Any

from elasticjob_operator.kube import client as clients
from support import plain_torchrun, ports
from support.operator_simulation import Simulation

_SERVICE = re.compile(r"[a-z0-9.-]+\.svc:\d+")


class Kubelet(Simulation):
    """The pods of one job."""

    def __init__(
        self,
        client: clients.Client,
        namespace: str,
        job: str,
        folder: pathlib.Path,
        *,
        token: Callable[[], pathlib.Path] | None = None,
    ) -> None:
        """*token* gives what a pod's mounted token is in a cluster: a kubeconfig of the job's own ServiceAccount."""
        super().__init__(client, namespace, job)
        self._token = token
        self.folder = folder / job
        self.folder.mkdir()
        self.running: dict[str, plain_torchrun.Torchrun] = {}
        """By their pods' UIDs: names come again."""
        self._address = f"127.0.0.1:{ports.free()}"

    @property
    def finish(self) -> pathlib.Path:
        """The file that ends the training once it is there."""
        return self.folder / "finish"

    async def trains(self, world: int) -> None:
        """Wait until so many pods have taken the first step of one group."""

        def done() -> list[str]:
            return [name for name, process in self.running.items() if world in process.worlds()]

        for _ in range(int(plain_torchrun.PATIENCE / 0.1)):
            if len(done()) >= world:
                return
            await asyncio.sleep(0.1)
        raise AssertionError("\n".join(f"{n}:\n{p.log.read_text()}" for n, p in self.running.items()))

    def stop(self) -> None:
        """Leave nothing running."""
        for process in self.running.values():
            process.stop()

    async def _act(self) -> None:
        pods = await self.pods()
        for uid in self.running.keys() - {pod["metadata"]["uid"] for pod in pods}:
            await asyncio.to_thread(self.running.pop(uid).stop)
        for pod in pods:
            name, uid, phase = pod["metadata"]["name"], pod["metadata"]["uid"], pod["status"].get("phase")
            process = self.running.get(uid)
            if pod["metadata"].get("deletionTimestamp"):
                if process:
                    await asyncio.to_thread(process.stop)
                await self.remove(name)
            elif not pod["spec"].get("nodeName"):
                await self._bind(name)
            elif process is None:
                self.running[uid] = self._start(pod)
                await self._set_status(name, phase="Running", state={"running": {}}, ready=True)
            elif phase == "Running" and (code := process.process.poll()) is not None:
                await self.end(name, code)

    def _start(self, pod: dict[str, Any]) -> plain_torchrun.Torchrun:
        env = {one["name"]: self._value(one) for one in pod["spec"]["containers"][0]["env"]}
        if self._token:
            env["PET_RDZV_CONF"] = f"kubeconfig={self._token()}"
        log = self.folder / f"{pod['metadata']['uid']}.log"
        return plain_torchrun.Torchrun(log, self.finish, env)

    def _value(self, variable: dict[str, Any]) -> str:
        if "valueFrom" in variable:
            return "127.0.0.1" if variable["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP" else self.job
        return _SERVICE.sub(self._address, variable["value"])
