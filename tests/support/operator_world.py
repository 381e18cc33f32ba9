"""A cluster in memory, in which the operator's real decisions meet the agents' real ones.

Pods start at once, agents take one step when they are told to, time passes when nothing else can. The operator can be
killed after any of its writes: what it keeps is what it has written.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

from elasticjob_operator.api import allocation, names, status
from elasticjob_operator.api import job as jobs
from elasticjob_operator.core import actions, children, deciding, observed, pods
from elasticjob_operator.core.cluster_nodes import ClusterNode
from elasticjob_rendezvous.round import agent, changing
from elasticjob_rendezvous.round import lease as leases
from elasticjob_rendezvous.round.lease import SlotLease
from elasticjob_rendezvous.round.record import Member, Phase, Reason, Record
from support import operator_builders as build

LIMIT = 160.0
"""Seconds after which a Lease that stood still may be taken (the agents' fence and stop together)."""


@dataclasses.dataclass
class Process:
    """An agent with its workers: it waits, trains in a round, or has finished it."""

    pod: str
    me: agent.Process
    training: int = 0
    finished: int = 0
    left: int = 0
    held: bool = False
    warming: int = 0
    acked: str = ""


class World:
    """One job."""

    def __init__(self, *, warming: int = 8, **fields: Any) -> None:
        """A job with these fields in its spec, whose agents idle for so many steps before they are up."""
        self.warming = warming
        self.stubborn = False  # whether agents ignore their SIGTERM, and live for as long as they are let
        self.fields = {"nodes": 2, "maxNodes": 4, **fields}
        self.now = build.NOW
        self.generation = 1
        self.status: dict[str, Any] = {}
        self.record: Record | None = None
        self.version = 0
        self.leases: dict[int, SlotLease] = {}
        self.cluster = {name: ClusterNode(name) for name in ("n0", "n1", "n2", "spare")}
        self.access = observed.Access()
        self.deleted = False
        self.allocation: allocation.Allocation | None = None
        self.pods: dict[str, pods.Pod] = {}
        self.etcd: pods.Pod | None = None
        self.etcd_works = True
        self.processes: dict[str, Process] = {}
        self.births = 0
        self.highest = 0
        self.history: list[Record] = []
        self.events: list[actions.Event] = []
        self.writes = 0
        self.refused: actions.Problem | None = None  # what the API server says to each object of this kind
        self.dies_at: int | None = None  # the number of the write after which the operator is killed, once

    # What a person or the cluster does

    def scale(self, nodes: int) -> None:
        """``kubectl scale``."""
        self.edit(nodes=nodes)

    def edit(self, **fields: Any) -> None:
        """``kubectl edit``: other fields in the spec; what is None is left out, as the API server does it."""
        self.fields = {name: value for name, value in {**self.fields, **fields}.items() if value is not None}
        self.generation += 1

    def kill(self, name: str) -> None:
        """The pod and its object are gone at once."""
        del self.pods[name]
        self.processes.pop(name, None)

    def fail(self, name: str, code: int = 1) -> None:
        """The pod's process has ended by itself."""
        self.processes.pop(name, None)
        self.pods[name] = dataclasses.replace(
            self.pods[name], phase="Failed" if code else "Succeeded", exit_code=code, ready=False, started=False
        )

    def delete(self, name: str) -> None:
        """The pod begins to end: its agent goes before its object does."""
        if self.etcd and name == self.etcd.name:
            self.etcd = None
            return
        self.pods[name] = dataclasses.replace(self.pods[name], deleting=True)

    def cordon(self, node: str) -> None:
        """``kubectl cordon``."""
        self.cluster[node] = dataclasses.replace(self.cluster[node], cordoned=True)

    def call_back(self, node: str) -> None:
        """The cloud wants this machine back."""
        self.cluster[node] = dataclasses.replace(self.cluster[node], leaving="karpenter.sh/disrupted")

    def die(self, node: str) -> None:
        """The machine is without power: its agents are gone, and its pods' objects say that they run."""
        self.cluster[node] = dataclasses.replace(self.cluster[node], unready_since=self.now)
        for name in [name for name, pod in self.pods.items() if pod.node == node]:
            self.processes.pop(name, None)

    def repair(self, node: str) -> None:
        """The machine is as good as new. Its kubelet finds the pods of before without a process."""
        self.cluster[node] = ClusterNode(node)
        for name in [n for n, pod in self.pods.items() if pod.node == node and pod.live and n not in self.processes]:
            self.fail(name, 137)

    def reap(self) -> None:
        """Pods that are being deleted are gone."""
        dead = {node.name for node in self.cluster.values() if node.unready_since is not None}
        for name in [name for name, pod in self.pods.items() if pod.deleting and pod.node not in dead]:
            self.kill(name)

    def workers_fail(self, name: str) -> None:
        """A worker has crashed; its agent stops the others of its node."""
        process = self.processes[name]
        if process.training:
            process.left, process.training = process.training, 0

    def finish(self) -> None:
        """The work is done: every member's workers end well."""
        for process in self.processes.values():
            if process.training:
                process.finished, process.training = process.training, 0

    # The operator

    def read(self) -> observed.Observed:
        """What the operator would read."""
        job = jobs.Job(
            namespace="default",
            name="digits",
            uid=build.UID,
            generation=self.generation,
            deleting=False,
            spec=build.a_spec(**self.fields),
            status=status.parse(self.status),
        )
        found = observed.Round(self.record, str(self.version)) if self.record else observed.Round()
        parts = tuple(sorted(self.pods.values(), key=lambda p: (p.slot, p.number)))
        return observed.Observed(
            job=job,
            round=found,
            leases=dict(self.leases),
            pods=parts,
            access=self.access,
            cluster_nodes=dict(self.cluster),
            allocation=self.allocation,
            etcd=self.etcd,
        )

    def operate(self, *, writes: int | None = None) -> bool:
        """One reconcile, killed after so many *writes* of its own, or at its time; whether it had anything to write."""
        if self.deleted:
            return False
        seen = self.read()
        decision = deciding.decide(seen, self.now)
        taken = list(itertools.takewhile(self._takes, decision.actions))
        if self.refused and len(taken) < len(decision.actions):
            decision = deciding.decide(seen, self.now, (self.refused,))
        data = status.dump(decision.status)
        todo: list[Callable[[], None]] = [functools.partial(self._apply, action) for action in taken]
        if data != self.status:
            todo.append(functools.partial(self._tell, data, decision.events))
        life = [writes] if writes is not None else []
        if self.dies_at is not None:
            life.append(self.dies_at - self.writes)
        for write in todo[: min(life, default=None)]:
            write()
            self.writes += 1
        if self.writes == self.dies_at:
            self.dies_at = None
        return bool(todo)

    def _takes(self, action: actions.Action) -> bool:
        match action:
            case actions.Create(kind=kind):
                made: str | None = kind
            case actions.WriteRound(version=""):
                made = "ConfigMap"
            case _:
                made = None
        return self.refused is None or made != self.refused.kind

    def _tell(self, data: dict[str, Any], events: tuple[actions.Event, ...]) -> None:
        self.status = data
        self.events += events

    def _apply(self, action: actions.Action) -> None:
        match action:
            case actions.Create(kind="Pod", manifest=manifest):
                self._start(manifest)
            case actions.Create(kind="Lease", manifest=manifest):
                slot = int(manifest["metadata"]["labels"][names.SLOT_LABEL])
                assert slot not in self.leases
                self.leases[slot] = SlotLease(slot)
            case actions.Create(kind=kind) | actions.Replace(kind=kind):
                self._give_access(kind, dict(action.manifest))
            case actions.WriteRound(record=record, version=version):
                assert version == (str(self.version) if self.record else "")
                self._write(record)
            case actions.ReleaseLease(lease=lease):
                assert self.leases[lease.slot] == lease
                assert lease.pod not in self.processes or lease.pod != self.processes[lease.pod].me.pod
                self.leases[lease.slot] = leases.freed(lease)
            case actions.DropLease(lease=lease):
                assert lease.free
                assert self.leases.pop(lease.slot) == lease
            case actions.DeleteJob():
                self.deleted = True
            case actions.DeletePod(name=name, force=force):
                (self.kill if force else self.delete)(name)

    def _give_access(self, kind: str, manifest: dict[str, Any]) -> None:
        changes: dict[str, dict[str, Any]] = {
            "ServiceAccount": {"account": True},
            "Role": {"role": True, "slots": children.role_slots(manifest)},
            "RoleBinding": {"binding": True},
            "Service": {"place": True},
            "ConfigMap": {"place": True},
        }
        self.access = dataclasses.replace(self.access, **changes[kind])

    def _start(self, manifest: Any) -> None:
        name = manifest["metadata"]["name"]
        assert name not in self.pods
        place = names.pod_place("digits", name)
        if place is None:
            self.etcd = pods.Pod(name, "etcd", -1, 0, "Running", ready=self.etcd_works, started=True)
            return
        slot, number = place
        self.births += 1
        pod_uid = f"{name}.{self.births}"
        annotations = manifest["metadata"]["annotations"]
        self.pods[name] = pods.Pod(
            name,
            pod_uid,
            slot,
            number,
            "Running",
            ready=True,
            started=True,
            created=f"{self.births:06}",
            template=annotations[names.TEMPLATE_ANNOTATION],
            node=self._place(str(manifest["spec"].get("affinity", ""))),
            run=int(annotations.get(names.RUN_ANNOTATION, 0)),
        )
        if names.RUN_ANNOTATION in annotations:
            return  # its agent tells nobody what it does
        me = agent.Process(
            build.UID, slot, f"{self.births:08x}", pod_uid, self.fields.get("minNodes", 1), 4, planned=True
        )
        self.processes[name] = Process(name, me, warming=self.warming)

    def _place(self, ruled_out: str) -> str:
        """The scheduler: one after the other of the cluster nodes that take pods, and that these pods take."""
        fit = [node.name for node in self.cluster.values() if not node.restless and node.unready_since is None]
        fit = [name for name in fit if f"'{name}'" not in ruled_out]
        return fit[self.births % len(fit)]

    # The agents

    def agents(self, pick: Callable[[list[str]], list[str]] = list) -> bool:
        """One step of each agent that is *pick*ed; whether any did something."""
        acted = [self._agent(self.processes[n]) for n in pick(sorted(self.processes)) if n in self.processes]
        return any(acted)

    def _agent(self, process: Process) -> bool:  # noqa: PLR0911 - a case a line
        record = self.record
        if record is None:
            return False
        if process.warming:
            process.warming -= 1
            return True
        if self.pods[process.pod].deleting and not self.stubborn:  # it has got its SIGTERM
            return self._leave(process, left=process.me.pod if agent.wanted(process.me, record) else "")
        own = self.leases.get(process.me.slot)
        if own and process.held and own.nonce != process.me.nonce:
            return self._end(process, 1)
        if process.finished:
            return self._finished(process, record)
        if process.training:
            return self._works(process, record)
        situation = agent.Situation(
            me=process.me,
            record=record,
            own=agent.Sighting(own, 0.0, LIMIT) if own else None,
            held=process.held,
            left=process.left,
            why=Reason.WORKERS_FAILED,
            leases={slot: agent.Sighting(lease, 0.0, LIMIT) for slot, lease in self.leases.items()},
            waited=1000.0,
        )
        return self._carry_out(process, agent.decide(situation))

    def _carry_out(self, process: Process, action: agent.Action) -> bool:
        slot, nonce = process.me.slot, process.me.nonce
        match action:
            case agent.Arrive(number=number):
                seen = max(number, self.leases[slot].seen)
                store = f"10.0.0.{slot}:4{self.births:04}"
                self.leases[slot] = SlotLease(slot, process.me.pod, nonce, number, store, seen)
                process.held = True
            case agent.Write(record=new):
                self._write(dataclasses.replace(new, writer=f"{nonce}.1"))
            case agent.CheckIn(record=new):
                return self._check_in(process, new)
            case agent.Leave(code=code):
                return self._end(process, code)
            case _:
                return False
        return True

    def _check_in(self, process: Process, record: Record) -> bool:
        """Go, when all members are there; the ones that are dead are told of."""
        alive = {p.me.nonce for p in self.processes.values()}
        gone = {m.nonce for m in record.members if m.nonce not in alive}
        if not gone:
            process.training = record.number
            return True
        if record.members[0].nonce in gone | {process.me.nonce}:
            self._write(agent.opened(record, Reason.PEER_SILENT, planned=True, suspects=gone))
            return True
        return False

    def _works(self, process: Process, record: Record) -> bool:
        if agent.over(record, process.me, process.training):
            process.training = 0
            return True
        first = record.members[0] == Member(process.me.slot, process.me.nonce)
        if first and record.notice and process.acked != record.notice.id:
            process.acked = record.notice.id
            lease = self.leases[process.me.slot]
            self.leases[process.me.slot] = dataclasses.replace(lease, checkpointed=record.notice.id)
            return True
        return False

    def _finished(self, process: Process, record: Record) -> bool:
        lease = self.leases[process.me.slot]
        if lease.finished != process.finished:
            self.leases[process.me.slot] = dataclasses.replace(lease, finished=process.finished)
        elif record.phase is Phase.SEALED and record.number == process.finished:
            self._write(changing.finishing(record))
        elif record.phase in (Phase.FINISHING, Phase.CLOSED) or record.number > process.finished:
            return self._end(process, 0)
        else:
            return False
        return True

    def _leave(self, process: Process, *, left: str = "") -> bool:
        """SIGTERM: this node leaves. Its Lease is free, the others go on."""
        slot = process.me.slot
        if self.leases[slot].nonce == process.me.nonce and not process.finished:
            self.leases[slot] = leases.freed(self.leases[slot], left=left)
        del self.processes[process.pod]
        return True

    def _end(self, process: Process, code: int) -> bool:
        self._leave(process)
        self.fail(process.pod, code)
        return True

    def _write(self, record: Record) -> None:
        assert record.number >= self.highest, "the round number went back"
        if record.phase is Phase.SEALED and (self.record is None or self.record.phase is Phase.OPEN):
            assert not record.sizes or len(record.members) in record.sizes, "not an allowed size"
            assert all(r.number != record.number for r in self.history), "a second membership of one round"
            self.history.append(record)
        self.highest = record.number
        self.record, self.version = record, self.version + 1

    # Time

    def settle(self, *, turns: int = 400, minutes: int = 10) -> None:
        """Let everybody act, and time pass, until nothing more happens for so many minutes."""
        quiet = 0
        for turn in range(turns):
            if turn % 30 == 29 or quiet or not self.stubborn:
                self.reap()
            if self.operate() | self.agents():
                quiet = 0
                continue
            self.now += 60
            quiet += 1
            if quiet > minutes:
                return
        raise AssertionError(f"does not come to rest: {self.record} {self.status}")
