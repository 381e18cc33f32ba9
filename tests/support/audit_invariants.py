"""What must hold of everything that was written to an API server, whoever wrote it: judged from its audit log alone.

Entries of parallel requests are in no certain order. A write counts from its end and a removal from its beginning, so
that only what was wrong in every possible order is told.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from elasticjob_operator.api import names
from elasticjob_rendezvous.round import lease, record
from support import audit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

OPERATOR = "system:serviceaccount:elasticjob-system:elasticjob"
ENDED = ("Succeeded", "Failed")
PHASES = list(record.Phase)

COUNTERS = ("failures", "infrastructure", "disruptions", "failedPods", "failedRounds")
"""What a job's status counts, and never takes back."""

SETTLING = timedelta(seconds=60)
"""So long the collector of garbage has for what a deleted job has left."""

LOOKED = timedelta(seconds=5)
"""A status that is written so long after a pod was taken away is one of an operator that has seen it."""

QUIET = ("events", "leases")
"""An election's Lease is renewed for ever, and events may be told late."""


@dataclasses.dataclass(frozen=True)
class Write:
    """One write that the API server has carried out."""

    verb: str
    resource: str
    sub: str
    namespace: str
    name: str
    user: str
    began: datetime
    ended: datetime
    request: Mapping[str, Any]
    response: Mapping[str, Any]

    @property
    def ends_pods(self) -> bool:
        """Whether pods are told to end by it: with grace or without, by whomever."""
        return self.resource == "pods" and (self.verb in ("delete", "deletecollection") or self.sub == "eviction")

    @property
    def uid(self) -> str:
        """Whose it is; also where the answer to a deletion is no object but the word that it is done."""
        found = self.response.get("details") if self.response.get("kind") == "Status" else self.response.get("metadata")
        return str((found or {}).get("uid", ""))

    @property
    def version(self) -> int:
        """The place of an object's write among all others."""
        return int((self.response.get("metadata") or {}).get("resourceVersion") or 0)

    def __str__(self) -> str:
        where = "/".join(part for part in (self.resource, self.namespace, self.name, self.sub) if part)
        return f"{self.ended:%H:%M:%S.%f} {self.user} {self.verb} {where}"


@dataclasses.dataclass
class Pod:
    """What became of one pod of a job."""

    name: str
    uid: str
    began: datetime
    stopped: datetime | None = None
    """When it ended, or was told to end."""
    ended: bool = False
    """Whether it ended by itself."""
    by: str = ""
    """Who told it to end, where that came first."""
    slot: int = 0


def violations(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Everything that must never be, in any run."""
    found = writes(entries)
    return [*_too_many_pods(found), *_rounds(found), *_counters(found), *_overlooked(found), *_orphans(found)]


def writes(entries: Iterable[Mapping[str, Any]]) -> list[Write]:
    """What was carried out, in the order of the answers."""
    return [
        _write(entry)
        for entry in entries
        if 200 <= audit.code(entry) < 300 and entry["verb"] not in ("get", "list", "watch") and entry.get("objectRef")
    ]


def unrest(entries: Iterable[Mapping[str, Any]], namespace: str, since: datetime) -> list[str]:
    """What the operator wrote in a namespace in which there was nothing to do any more."""
    ours = (w for w in writes(entries) if w.user == OPERATOR and w.namespace == namespace and w.began > since)
    return [f"no write was needed: {w}" for w in ours if w.resource not in QUIET]


def _write(entry: Mapping[str, Any]) -> Write:
    about, response = entry["objectRef"], entry.get("responseObject") or {}
    return Write(
        verb=entry["verb"],
        resource=about.get("resource", ""),
        sub=about.get("subresource", ""),
        namespace=about.get("namespace", ""),
        name=about.get("name") or (response.get("metadata") or {}).get("name", ""),
        user=audit.user(entry),
        began=datetime.fromisoformat(entry["requestReceivedTimestamp"]),
        ended=datetime.fromisoformat(entry["stageTimestamp"]),
        request=entry.get("requestObject") or {},
        response=response,
    )


def _owner(item: Mapping[str, Any]) -> str:
    """The UID of the ElasticJob that an object belongs to."""
    owners = (item.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(o["uid"]) for o in owners if o.get("kind") == names.KIND), "")


def _pods(found: list[Write]) -> dict[str, list[Pod]]:
    """Every pod that was ever a node of a job, by the job's UID."""
    pods: dict[str, list[Pod]] = defaultdict(list)
    named: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for write in (w for w in found if w.resource == "pods"):
        item = write.response if write.response.get("kind") == "Pod" else {}
        job = ((item.get("metadata") or {}).get("labels") or {}).get(names.JOB_LABEL, "")
        created = (write.verb, write.sub) == ("create", "") and _owner(item)
        if created and (place := names.pod_place(job, write.name)):
            made = Pod(f"{write.namespace}/{write.name}", write.uid, write.ended, slot=place[0])
            pods[_owner(item)].append(made)
            named[write.namespace, write.name].append(made)
        ended = (item.get("status") or {}).get("phase") in ENDED
        for pod in _meant(named, write):
            if (write.ends_pods or ended) and not (pod.stopped and pod.stopped <= write.began):
                pod.stopped, pod.by = write.began, "" if ended else write.user
            pod.ended |= ended
    return pods


def _meant(named: Mapping[tuple[str, str], list[Pod]], write: Write) -> list[Pod]:
    """The pods that a write is about: by UID where it tells one, else the last of the name."""
    if write.verb == "deletecollection":
        return [pod for (namespace, _), pods in named.items() if namespace == write.namespace for pod in pods]
    found = named.get((write.namespace, write.name), [])
    return [pod for pod in found if pod.uid == write.uid] or found[-1:]


def _jobs(found: list[Write]) -> dict[str, list[Mapping[str, Any]]]:
    """What was written of each job, by UID, oldest first."""
    jobs: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for write in sorted((w for w in found if w.resource == names.PLURAL), key=lambda w: w.version):
        if write.response.get("kind") == names.KIND and write.sub in ("", "status"):
            jobs[write.uid].append(write.response)
    return jobs


def _too_many_pods(found: list[Write]) -> Iterator[str]:
    """At no moment more pods that live than the largest ``maxNodes`` that the job has ever had."""
    jobs = _jobs(found)
    for uid, pods in _pods(found).items():
        most = max((item["spec"]["maxNodes"] for item in jobs.get(uid, ())), default=len(pods))
        for pod in pods:
            beside = [p for p in pods if p.began <= pod.began and not (p.stopped and p.stopped <= pod.began)]
            if len(beside) > most:
                yield f"{len(beside)} pods at once where {most} are allowed: {', '.join(p.name for p in beside)}"


def _rounds(found: list[Write]) -> Iterator[str]:
    """A job's rounds only go on, and each has had one membership."""
    last: dict[str, record.Record] = {}
    sealed: dict[tuple[str, int], record.Record] = {}
    for write in sorted((w for w in found if w.resource == "configmaps"), key=lambda w: w.version):
        new = _record(write)
        if new is None:
            continue
        old = last.get(new.job)
        if old and (new.number, PHASES.index(new.phase)) < (old.number, PHASES.index(old.phase)):
            yield f"round {new.number} {new.phase.value} follows {old.number} {old.phase.value}: {write}"
        first = sealed.setdefault((new.job, new.number), new) if new.running else new
        if (first.members, first.store) != (new.members, new.store):
            yield f"round {new.number} has two memberships: {first.members} and {new.members}: {write}"
        last[new.job] = new


def _record(write: Write) -> record.Record | None:
    try:
        return record.parse((write.response.get("data") or {})[record.KEY])
    except (KeyError, record.RecordError):
        return None  # another ConfigMap, or a deletion, or garbage that a test has written


def _counters(found: list[Write]) -> Iterator[str]:
    """Counters only grow, and none counts more pods than there were to count."""
    pods = _pods(found)
    for uid, items in _jobs(found).items():
        last: Mapping[str, int] = {}
        for item in items:
            now = item.get("status") or {}
            if back := [f"{c} {last[c]} -> {now.get(c, 0)}" for c in last if now.get(c, 0) < last[c]]:
                yield f"{item['metadata']['namespace']}/{item['metadata']['name']} counts back: {', '.join(back)}"
            last = {counter: now.get(counter, 0) for counter in COUNTERS}
        own = pods.get(uid, [])
        most = {"failedPods": sum(p.ended for p in own), "disruptions": sum(p.stopped is not None for p in own)}
        for counter, count in most.items():
            if last.get(counter, 0) > count:
                yield f"{counter} is {last[counter]} where {count} pods could be counted: job {uid}"


def _overlooked(found: list[Write]) -> Iterator[str]:
    """Each node that the job wanted, and that failed or was taken from it, is in its counters.

    Not told are the cases in which that may be seen in two ways: the plan was changed, or the job ended, just then.
    """
    told: dict[str, list[Write]] = defaultdict(list)
    for write in (w for w in found if w.resource == names.PLURAL and w.sub == "status"):
        told[write.uid].append(write)
    rounds, held = _planned(found), _held(found)
    for uid, pods in _pods(found).items():
        last = max((w.began for w in told.get(uid, ())), default=None)
        missed = {
            pod.name
            for pod in pods
            if last and pod.stopped and pod.stopped + LOOKED < last and pod.by != OPERATOR
            and held.get(pod.uid, last) < pod.stopped
            and _wanted(rounds[uid], pod)
        }  # fmt: skip
        status = max(told[uid], key=lambda w: w.version).response.get("status") or {} if told.get(uid) else {}
        count = status.get("disruptions", 0) + status.get("failedPods", 0)
        if count < len(missed):
            yield f"{count} pods are counted where {len(missed)} were lost or failed: {', '.join(sorted(missed))}"


def _planned(found: list[Write]) -> Mapping[str, list[tuple[datetime, record.Record]]]:
    """Each job's rounds, with when they were written."""
    rounds: dict[str, list[tuple[datetime, record.Record]]] = defaultdict(list)
    for write in (w for w in found if w.resource == "configmaps"):
        if new := _record(write):
            rounds[new.job].append((write.ended, new))
    return rounds


def _held(found: list[Write]) -> Mapping[str, datetime]:
    """Since when pods had a slot, by UID; not those that have said in it that their work is done."""
    held: dict[str, datetime] = {}
    done: set[str] = set()
    for write in (w for w in found if w.resource == "leases"):
        spec, meta = write.response.get("spec") or {}, write.response.get("metadata") or {}
        value = lease.parse(0, spec.get("holderIdentity"), meta.get("annotations"))
        held.setdefault(value.pod, write.ended)
        done |= {value.pod} if value.finished else set()
    return {uid: since for uid, since in held.items() if uid and uid not in done}


def _wanted(rounds: list[tuple[datetime, record.Record]], pod: Pod) -> bool:
    """Whether the job, as far as one can say, wanted the pod when it ended."""
    assert pod.stopped
    before = [new for ended, new in rounds if ended < pod.stopped][-1:]
    around = before + [new for ended, new in rounds if pod.stopped <= ended < pod.stopped + LOOKED]
    return bool(before) and all(pod.slot in new.plan and new.phase is not record.Phase.CLOSED for new in around)


def _orphans(found: list[Write]) -> Iterator[str]:
    """What belongs to a job that was deleted goes with it, and nothing is made for it afterwards."""
    if not found:
        return
    end = found[-1].ended - SETTLING
    gone = {w.uid: w.ended for w in found if w.resource == names.PLURAL and w.verb == "delete" and not _orphaning(w)}
    dead_namespaces = {w.name for w in found if w.resource == "namespaces" and w.verb == "delete"}
    for write in (w for w in found if w.verb == "create" and not w.sub):
        ended = gone.get(_owner(write.request))
        if ended is None or ended > end or write.namespace in dead_namespaces:
            continue
        if not any(_removes(other, write) for other in found):
            yield f"its job is gone, and it stays: {write}"


def _orphaning(write: Write) -> bool:
    """``kubectl delete --cascade=orphan``."""
    return write.request.get("propagationPolicy") == "Orphan"


def _removes(other: Write, made: Write) -> bool:
    if (other.resource, other.namespace) != (made.resource, made.namespace) or other.ended < made.ended:
        return False
    return other.verb == "deletecollection" or (other.verb == "delete" and other.name == made.name)
