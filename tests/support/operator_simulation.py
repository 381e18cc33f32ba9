"""A kubelet and agents that are not there: what they would write into the API, decided by the agents' real decisions.

The kubelet's part gives every pod a node and lets it run; the agents' part takes each running pod for a process that
arrives, seals, trains, saves when it is asked, and leaves. Neither needs an image, a container or torch.
"""

import asyncio
import contextlib
import dataclasses
import hashlib
from collections.abc import AsyncIterator
from typing import Any

from elasticjob_operator.api import names
from elasticjob_operator.kube import client as clients
from elasticjob_operator.kube import errors
from elasticjob_rendezvous.round import agent, changing, lease, record
from elasticjob_rendezvous.round.record import Member, Phase, Reason
from support.operator_cluster import NODE, until

PACE = 0.03
"""Seconds between two rounds of everybody's acting."""

LIMIT = 160.0


@dataclasses.dataclass
class Process:
    """One agent."""

    uid: str
    me: agent.Process
    training: int = 0
    finished: int = 0
    left: int = 0
    held: bool = False
    acked: str = ""


class Simulation:
    """Everything in one namespace that is neither the API server nor the operator."""

    def __init__(self, client: clients.Client, namespace: str, job: str = "digits") -> None:
        self._client = client
        self.namespace = namespace
        self.job = job
        self.processes: dict[str, Process] = {}
        self.paused: set[str] = set()
        self.killed: set[str] = set()
        """Pods, by UID, whose agents are dead, whatever a list says that was read before."""
        self.start_pods = True
        self.node = NODE
        self.finishing = False
        self.step = 0
        self.pace = PACE
        self._seen: tuple[dict[str, Any] | None, dict[int, dict[str, Any]]] | None = None
        """What the agents go by: read once for all that act at a time, and again after each write."""

    async def run(self) -> None:
        """Act until cancelled; what another writer was quicker at, or the server too slow for, is tried again."""
        while True:
            with contextlib.suppress(errors.ConflictError, errors.NotFoundError, errors.UnavailableError):
                await self._act()
            await asyncio.sleep(self.pace)

    async def pods(self) -> list[dict[str, Any]]:
        """The job's pods."""
        return await self._client.list("Pod", self.namespace, names.selector(self.job))

    async def leases(self) -> list[dict[str, Any]]:
        """The job's Leases."""
        return await self._client.list("Lease", self.namespace, names.selector(self.job))

    async def round(self) -> record.Record | None:
        """The job's round."""
        found = await self._client.get("ConfigMap", self.namespace, names.config_map(self.job))
        return record.parse(found["data"][record.KEY]) if found else None

    async def remove(self, name: str) -> None:
        """Delete a pod with no grace: it is gone at once, and its agent has no time to free its slot.

        Even so the API server marks the pod as ending first: who lists pods just then must not take that for a SIGTERM.
        """
        self.paused.add(name)
        self.killed.add((await self._delete(name))["metadata"]["uid"])
        self.paused.discard(name)

    async def delete(self, name: str) -> None:
        """``kubectl delete pod``: its agent leaves first. Waits until it is gone."""
        await self._client.request("DELETE", clients.path("Pod", self.namespace, name))
        await until(lambda: self._gone(name))

    async def _gone(self, name: str) -> bool:
        return await self._client.get("Pod", self.namespace, name) is None

    async def _delete(self, name: str) -> dict[str, Any]:
        body = {"gracePeriodSeconds": 0}
        return await self._client.request("DELETE", clients.path("Pod", self.namespace, name), body=body)

    async def end(self, name: str, code: int, message: str = "") -> None:
        """A pod's trainer has ended."""
        state = {"terminated": {"exitCode": code, "message": message, "reason": "Error" if code else "Completed"}}
        await self._set_status(name, phase="Failed" if code else "Succeeded", state=state, ready=False)

    async def crash(self, name: str, code: int, message: str) -> None:
        """The trainer of a pod that runs ends in the middle of its work."""
        self.paused.add(name)
        self.processes.pop(name)
        await self.end(name, code, message)

    async def workers_fail(self, name: str) -> None:
        """A worker of this pod has crashed; each member of a round starts its own when it has checked in."""

        async def training() -> bool:
            return name in self.processes and self.processes[name].training > 0

        await until(training)
        process = self.processes[name]
        process.left, process.training = process.training, 0

    async def _act(self) -> None:
        self._seen = None
        for pod in await self.pods():
            name, phase = pod["metadata"]["name"], pod["status"].get("phase")
            if name in self.paused or pod["metadata"]["uid"] in self.killed:
                continue
            if pod["metadata"].get("deletionTimestamp"):
                await self._terminate(pod)
            elif not pod["spec"].get("nodeName"):
                if self.start_pods:
                    await self._bind(name)
            elif phase == "Pending":
                await self._set_status(name, phase="Running", state={"running": {}}, ready=True)
            elif phase == "Running":
                with contextlib.suppress(errors.ConflictError):
                    await self._agent(self._process(pod))

    def _process(self, pod: dict[str, Any]) -> Process:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        found = self.processes.get(name)
        if found is None or found.uid != uid:
            slot = int(pod["metadata"]["labels"][names.SLOT_LABEL])
            nonce = hashlib.sha256(uid.encode()).hexdigest()[:8]
            job = pod["metadata"]["ownerReferences"][0]["uid"]
            found = Process(uid, agent.Process(job, slot, nonce, uid, 1, 1024, planned=True))
            self.processes[name] = found
        return found

    # The kubelet

    async def _bind(self, name: str) -> None:
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": self.node}}
        where = clients.path("Pod", self.namespace, name, sub="binding")
        await self._client.request("POST", where, body=body)

    async def _terminate(self, pod: dict[str, Any]) -> None:
        process = self.processes.pop(pod["metadata"]["name"], None)
        if process:
            await self._release(process, signalled=True)
        await self._delete(pod["metadata"]["name"])

    async def _set_status(self, name: str, *, phase: str, state: dict[str, Any], ready: bool) -> None:
        found = await self._client.get("Pod", self.namespace, name)
        if found is None:
            return
        container = found["spec"]["containers"][0]
        status = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
        found["status"] |= {
            "phase": phase,
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [{**status, "ready": ready, "state": state}],
        }
        await self._client.replace("Pod", found, sub="status")

    # The agents

    async def _agent(self, process: Process) -> None:
        if self._seen is None:
            self._seen = await self._look()
        found, items = self._seen
        if found is None:
            return
        now = record.parse(found["data"][record.KEY])
        leases = {
            slot: lease.parse(slot, i["spec"].get("holderIdentity"), i["metadata"].get("annotations"))
            for slot, i in items.items()
        }
        own = leases.get(process.me.slot)
        if own is None:
            return
        if process.held and own.nonce != process.me.nonce:
            await self._leave(process, 1)
        elif process.finished:
            await self._finished(process, found, now, items[own.slot], own)
        elif process.training:
            await self._works(process, now, items[own.slot], own)
        else:
            sightings = {slot: agent.Sighting(one, 0.0, LIMIT) for slot, one in leases.items()}
            situation = agent.Situation(
                me=process.me,
                record=now,
                own=sightings[own.slot],
                held=process.held,
                left=process.left,
                leases=sightings,
                waited=1000.0,
            )
            await self._carry_out(process, agent.decide(situation), found, items[own.slot], own)

    async def _look(self) -> tuple[dict[str, Any] | None, dict[int, dict[str, Any]]]:
        """The round's object and the Leases', by slot."""
        found = await self._client.get("ConfigMap", self.namespace, names.config_map(self.job))
        return found, {int(i["metadata"]["labels"][names.SLOT_LABEL]): i for i in await self.leases()}

    async def _carry_out(
        self, process: Process, action: agent.Action, found: dict[str, Any], item: dict[str, Any], own: lease.SlotLease
    ) -> None:
        match action:
            case agent.Arrive(number=number):
                me, seen = process.me, max(number, own.seen)
                await self._write(
                    item, lease.SlotLease(me.slot, me.pod, me.nonce, number, f"10.0.0.{me.slot}:4000", seen)
                )
                process.held = True
            case agent.Write(record=new):
                await self._write_round(found, new)
            case agent.CheckIn(record=new):
                alive = {p.me.nonce for p in self.processes.values()}
                gone = {m.nonce for m in new.members} - alive
                if not gone:
                    process.training = new.number
                elif new.members[0].nonce in gone | {process.me.nonce}:
                    await self._write_round(found, agent.opened(new, Reason.PEER_SILENT, planned=True, suspects=gone))
            case agent.Leave(code=code):
                await self._leave(process, code)

    async def _works(self, process: Process, now: record.Record, item: dict[str, Any], own: lease.SlotLease) -> None:
        if agent.over(now, process.me, process.training):
            process.training = 0
        elif self.finishing:
            process.finished, process.training = process.training, 0
        elif now.members[0] == Member(own.slot, own.nonce):
            self.step += 1
            told = lease.Progress(process.training, self.step, self.step * 32, 0.5)
            if now.notice and process.acked != now.notice.id:
                process.acked = now.notice.id
                await self._write(item, dataclasses.replace(own, checkpointed=now.notice.id, progress=told))
            elif own.progress is None or own.progress.round != process.training:
                await self._write(item, dataclasses.replace(own, progress=told))

    async def _finished(
        self, process: Process, found: dict[str, Any], now: record.Record, item: dict[str, Any], own: lease.SlotLease
    ) -> None:
        if own.finished != process.finished:
            await self._write(item, dataclasses.replace(own, finished=process.finished))
        elif now.phase is Phase.SEALED and now.number == process.finished:
            await self._write_round(found, changing.finishing(now))
        elif now.phase in (Phase.FINISHING, Phase.CLOSED) or now.number > process.finished:
            await self._leave(process, 0)

    async def _leave(self, process: Process, code: int) -> None:
        await self._release(process)
        name = next(name for name, one in self.processes.items() if one is process)
        await self.end(name, code)

    async def _release(self, process: Process, *, signalled: bool = False) -> None:
        now = await self.round()
        left = process.uid if signalled and now and agent.wanted(process.me, now) else ""
        found = await self._client.get("Lease", self.namespace, names.slot_lease(self.job, process.me.slot))
        if found is None or process.finished:
            return
        own = lease.parse(process.me.slot, found["spec"].get("holderIdentity"), found["metadata"].get("annotations"))
        if own.nonce == process.me.nonce:
            await self._write(found, lease.freed(own, left=left))

    async def _write(self, item: dict[str, Any], value: lease.SlotLease) -> None:
        self._seen = None
        item["spec"]["holderIdentity"] = lease.holder(value)
        item["metadata"]["annotations"] = lease.annotations(value)
        await self._client.replace("Lease", item)

    async def _write_round(self, found: dict[str, Any], new: record.Record) -> None:
        self._seen = None
        found["data"][record.KEY] = record.dump(new)
        await self._client.replace("ConfigMap", found)


@contextlib.asynccontextmanager
async def acting(simulation: Simulation) -> AsyncIterator[None]:
    """It acts for as long as the block lasts."""
    task = asyncio.create_task(simulation.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
