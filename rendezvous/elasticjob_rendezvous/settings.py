"""What a handler is told: torchrun's flags, ``--rdzv-conf`` keys and the pod's environment, checked once, at the edge.

Holds no defaults that depend on the cluster and reads nothing but its arguments: the environment is passed in.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from typing import TYPE_CHECKING

from elasticjob_rendezvous.round import slots

if TYPE_CHECKING:
    from collections.abc import Mapping

BACKEND = "kubernetes"

SLOT_ENV = "ELASTICJOB_SLOT"
POD_UID_ENV = "ELASTICJOB_POD_UID"
POD_IP_ENV = "ELASTICJOB_POD_IP"
INDEX_ENV = "JOB_COMPLETION_INDEX"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_IGNORED = {"timeout"}
"""Keys that torchrun adds by itself for its own backends."""

UNSET_RUN_ID = ("", "none")
NO_RUN_ID = "--rdzv-id is not set: give each run an id of its own, or two runs would share a rendezvous"


MAX_LIMIT = 3600
"""Seconds: the longest ``leaseDurationSeconds`` that is written, or believed."""


@dataclasses.dataclass(frozen=True)
class Timers:
    """Every duration of the protocol, in seconds. Each can be set with ``--rdzv-conf``, mainly by tests."""

    beat_interval: float = 1.0
    """Between two signs of life over the round's store: a fifth of what is taken for death."""
    silence: float = 5.0
    """A member unheard of for so long is suspected. Torch's own backends need 15 s."""
    check_in: float = 10.0
    """A member that has not checked in so long after the seal is suspected: twice the silence, it may be slow."""
    renew_interval: float = 10.0
    """Between two renewals of a Lease, as the kubelet does it; grows with the number of members."""
    fence: float = 120.0
    """So long an agent goes on without the API before it stops its workers: outlasts a control plane's restart."""
    stop: float = 40.0
    """What stopping takes at most: torch kills workers after 30 s. A Lease is another's only after fence and stop."""
    stagger: float = 1.0
    """Between one candidate for sealing and the next: several times what a seal takes."""
    last_call_timeout: float = 5.0
    """Standalone: how long a round that could start waits for more."""
    close_timeout: float = 30.0
    """How long an agent that ends goes on trying to free its slot while the API is out of reach. Torch's default."""
    heartbeat_timeout: float = 5.0
    """For one request, a Lease's renewal among them: one that needs longer has failed. Torch's default."""
    join_timeout: float = 0.0
    """How long to wait for a round; 0 is for ever. An operator has deadlines of its own, hence 0 there, else 600."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """One handler's settings. With ``planned`` an operator decides who is wanted; else min, max and last call do."""

    namespace: str
    name: str
    run_id: str
    low: int
    high: int
    planned: bool
    slot: int | None
    pod_uid: str
    address: str
    kubeconfig: str
    context: str
    timers: Timers


_NUMBERS = {field.name: field.default for field in dataclasses.fields(Timers)}
_TEXTS = ("node", "kubeconfig", "context", "address")
STANDALONE_JOIN_TIMEOUT = 600.0
"""As torch's own backends, which is what a pod without an operator would expect."""


def parse(
    *,
    endpoint: str,
    run_id: str,
    low: int,
    high: int,
    local_addr: str | None,
    conf: Mapping[str, object],
    env: Mapping[str, str],
) -> Settings:
    """The settings that torchrun's parameters and the environment describe.

    Raises:
        ValueError: something is missing, unknown or malformed; the message says what to do.
    """
    known = {key: str(value) for key, value in conf.items() if key not in _IGNORED}
    unknown = sorted(known.keys() - _NUMBERS.keys() - set(_TEXTS))
    if unknown:
        raise ValueError(f"--rdzv-conf: unknown {', '.join(unknown)}; known: {', '.join(sorted((*_NUMBERS, *_TEXTS)))}")
    if run_id in UNSET_RUN_ID:
        raise ValueError(NO_RUN_ID)
    if not 1 <= low <= high <= slots.MAX_SLOTS:
        raise ValueError(f"--nnodes {low}:{high}: wanted is 1 ≤ min ≤ max ≤ {slots.MAX_SLOTS}")
    namespace, name = parse_endpoint(endpoint or run_id)
    planned = SLOT_ENV in env
    return Settings(
        namespace=namespace,
        name=name,
        run_id=run_id,
        low=low,
        high=high,
        planned=planned,
        slot=_slot(known.get("node"), env, high),
        pod_uid=env.get(POD_UID_ENV, ""),
        address=_address(known.get("address") or local_addr or env.get(POD_IP_ENV) or ""),
        kubeconfig=known.get("kubeconfig", ""),
        context=known.get("context", ""),
        timers=_timers(known, planned=planned),
    )


def parse_endpoint(endpoint: str) -> tuple[str, str]:
    """Namespace (``""`` for the pod's own) and name of the job.

    Raises:
        ValueError: it names none.
    """
    namespace, slash, name = endpoint.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and not _NAME.fullmatch(namespace)):
        raise ValueError(
            f"--rdzv-endpoint {endpoint!r}: wanted is [NAMESPACE/]NAME, the job's name in Kubernetes "
            "(without an endpoint the --rdzv-id is that name)"
        )
    return namespace, name


def _slot(node: str | None, env: Mapping[str, str], high: int) -> int | None:
    for source, text in (("--rdzv-conf node", node), (SLOT_ENV, env.get(SLOT_ENV)), (INDEX_ENV, env.get(INDEX_ENV))):
        if text is None:
            continue
        if not text.isascii() or not text.isdecimal() or int(text) >= slots.MAX_SLOTS:
            raise ValueError(f"{source}={text!r}: wanted is a slot, a number from 0 to {slots.MAX_SLOTS - 1}")
        if source == INDEX_ENV and int(text) >= high:
            return None  # more pods than nodes: the index is no slot, any free one will do
        return int(text)
    return None


def _address(text: str) -> str:
    """An address as it goes into ``MASTER_ADDR``: IPv6 bare. A name is left as it is."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        if bare and not re.fullmatch(r"[A-Za-z0-9.-]{1,253}", bare):
            raise ValueError(f"address {text!r}: wanted is an IP address or a host name") from None
        return bare


def _timers(known: Mapping[str, str], *, planned: bool) -> Timers:
    values = {"join_timeout": 0.0 if planned else STANDALONE_JOIN_TIMEOUT}
    for key in _NUMBERS.keys() & known.keys():
        try:
            values[key] = float(known[key])
        except ValueError:
            raise ValueError(f"--rdzv-conf {key}={known[key]!r}: wanted is a number of seconds") from None
        if not 0 <= values[key] < float("inf"):
            raise ValueError(f"--rdzv-conf {key}={known[key]}: wanted is a number of seconds from 0")
    timers = Timers(**values)
    for name in ("close_timeout", "heartbeat_timeout"):
        if getattr(timers, name) == 0:
            raise ValueError(f"--rdzv-conf {name}=0: wanted is a number of seconds above 0")
    if timers.fence + timers.stop > MAX_LIMIT:
        raise ValueError(
            f"--rdzv-conf: wanted is fence + stop ≤ {MAX_LIMIT}: so long a slot of a dead node stays taken"
        )
    for small, large in (("beat_interval", "silence"), ("renew_interval", "fence")):
        if not 0 < getattr(timers, small) < getattr(timers, large):
            raise ValueError(f"--rdzv-conf: wanted is 0 < {small} < {large}")
    return timers
