"""The operator's own settings: flags, each with an environment variable as its default, checked before all else."""

import argparse
import dataclasses
import typing
from collections.abc import Callable, Mapping, Sequence

from elasticjob_operator.api.installation import ETCD_IMAGE, PRIVILEGES, Installation
from elasticjob_operator.api.queues import Queue, QueueError
from elasticjob_operator.api.queues import parse as parse_queues

PREFIX = "ELASTICJOB_"
MAX_PORT = 65535

T = typing.TypeVar("T")


class SettingsError(ValueError):
    """A flag or variable that can't be used; the message names it and says what to do."""

    def __init__(self, name: str, text: str, why: str) -> None:
        super().__init__(f"--{name} (or {_variable(name)}) is {text!r}: {why}")
        self.why = why
        """The same without the flag, for who has read the value elsewhere."""


@dataclasses.dataclass(frozen=True)
class Autoscaler:
    """How jobs without ``spec.nodes`` share the cluster."""

    mode: str
    """on, dry-run (decisions are only shown), or off (such jobs want ``maxNodes``)."""
    accelerators: tuple[str, ...]
    """Extended resources that are shared out, the most wanted first."""
    topology: str
    """The label that names a cluster node's topology domain."""
    queues: tuple[Queue, ...] = ()
    pending: int = 0
    """Accelerators that pods may be left pending for, so that a cluster autoscaler adds cluster nodes."""
    volatile_minimum: bool = False
    """Whether a job's minimum may rest on spot cluster nodes where others have no room."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What an installation may choose."""

    namespace: str
    """Where the operator's own Lease is."""
    watched: tuple[str, ...]
    """Namespaces whose jobs it keeps; none named means all."""
    workers: int
    """Jobs reconciled at the same time."""
    pods_per_second: float
    """Pods created in a second, over all jobs: what a control plane takes without falling behind."""
    relist_seconds: float
    """Between two looks at every job, which find what no watch has told."""
    health_port: int
    """Where /healthz and /readyz answer; 0 for none."""
    elect: bool
    """Whether another operator may be running: then one of them works, and the others wait."""
    log_level: str
    watch_nodes: bool
    """Whether cluster nodes are watched, which is a right beyond the namespaces of the jobs."""
    installation: Installation
    """What jobs may ask for, and what each is given."""
    autoscaler: Autoscaler


HOSTNAME = "kubernetes.io/hostname"
"""The label that is one for each cluster node."""

_TEXTS: Mapping[str, tuple[str, str]] = {
    "namespace": ("", "the operator's own namespace (default: the pod's, else default)"),
    "watch-namespaces": ("", "namespaces whose jobs to keep, separated by commas (default: all)"),
    "workers": ("8", "jobs reconciled at the same time"),
    "pods-per-second": ("100", "pods created in a second, over all jobs"),
    "relist-seconds": ("300", "seconds between two looks at every job"),
    "health-port": ("8080", "port of /healthz and /readyz; 0 for none"),
    "leader-election": ("true", "true or false: whether several operators take turns"),
    "allowed-privileges": ("", f"what pod templates may ask for, of {', '.join(PRIVILEGES)} (default: none)"),
    "watch-cluster-nodes": ("true", "true or false: whether to act on cluster nodes that fail or are drained"),
    "disruption-budgets": ("false", "true or false: whether evictions of a job's pods wait for a checkpoint"),
    "network-policies": ("false", "true or false: whether each job's pods may be reached by each other alone"),
    "etcd-image": (
        ETCD_IMAGE,
        "image of the etcd that jobs with rendezvous.etcd.managed get; 3.5 is the last that will do",
    ),
    "log-level": ("info", "debug, info, warning or error"),
    "autoscaler": ("on", "on, dry-run or off: whether jobs without spec.nodes share the cluster's accelerators"),
    "accelerators": ("nvidia.com/gpu,amd.com/gpu", "the resources that are shared out, separated by commas"),
    "topology-label": ("topology.kubernetes.io/zone", "the label of cluster nodes that jobs are kept together by"),
    "packing": ("false", "true or false: whether a job's pods are drawn to each other, by machine and topology label"),
    "queues": (
        "[]",
        'teams\' shares in accelerators, as JSON: [{"name": "red", "weight": 2, "quota": 8, "limit": 16}]',
    ),
    "pending-accelerators": ("0", "accelerators that pods may wait for, so that cluster nodes are added"),
    "volatile-minimum": ("false", "true or false: whether spot cluster nodes may hold a job's minimum"),
}


def parse(arguments: Sequence[str], env: Mapping[str, str], *, namespace: str = "") -> Settings:
    """The settings from flags and environment; *namespace* is the pod's own, if there is one.

    Raises:
        SettingsError: one of them can't be used.
    """
    given = vars(_parser(env).parse_args(arguments))

    def read(name: str, of: Callable[[str], T], wanted: str) -> T:
        text = given[name.replace("-", "_")]
        try:
            return of(text)
        except QueueError as error:
            raise SettingsError(name, text, str(error)) from error
        except ValueError as error:
            raise SettingsError(name, text, f"wanted is {wanted}") from error

    return Settings(
        namespace=given["namespace"] or namespace or "default",
        watched=_words(given["watch_namespaces"]),
        workers=read("workers", _count, "a number from 1"),
        pods_per_second=read("pods-per-second", _positive, "a number above 0"),
        relist_seconds=read("relist-seconds", _positive, "a number of seconds above 0"),
        health_port=read("health-port", _port, f"a port from 0 to {MAX_PORT}"),
        elect=read("leader-election", _truth, "true or false"),
        log_level=read("log-level", _level, "debug, info, warning or error"),
        watch_nodes=read("watch-cluster-nodes", _truth, "true or false"),
        installation=Installation(
            privileges=read("allowed-privileges", _privileges, f"some of {', '.join(PRIVILEGES)}"),
            disruption_budgets=read("disruption-budgets", _truth, "true or false"),
            network_policies=read("network-policies", _truth, "true or false"),
            etcd_image=given["etcd_image"],
            packing=(HOSTNAME, given["topology_label"]) if read("packing", _truth, "true or false") else (),
        ),
        autoscaler=Autoscaler(
            mode=read("autoscaler", _mode, "on, dry-run or off"),
            accelerators=_words(given["accelerators"]),
            topology=given["topology_label"],
            queues=read("queues", parse_queues, "a JSON list of objects with name, weight, quota and limit"),
            pending=read("pending-accelerators", _natural, "a number from 0"),
            volatile_minimum=read("volatile-minimum", _truth, "true or false"),
        ),
    )


def _variable(name: str) -> str:
    return PREFIX + name.replace("-", "_").upper()


def _parser(env: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="elasticjob-operator", description="Keeps the ElasticJobs of a cluster.")
    for name, (default, text) in _TEXTS.items():
        variable = _variable(name)
        parser.add_argument(
            f"--{name}",
            default=env.get(variable) or default,
            metavar="X",
            help=f"{text}; {variable} (default: {default})",
        )
    return parser


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _count(text: str) -> int:
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def _natural(text: str) -> int:
    if int(text) < 0:
        raise ValueError(text)
    return int(text)


def _mode(text: str) -> str:
    if text not in ("on", "dry-run", "off"):
        raise ValueError(text)
    return text


def _positive(text: str) -> float:
    if not 0 < float(text) < float("inf"):
        raise ValueError(text)
    return float(text)


def _port(text: str) -> int:
    if not 0 <= int(text) <= MAX_PORT:
        raise ValueError(text)
    return int(text)


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _privileges(text: str) -> frozenset[str]:
    named = frozenset(_words(text))
    if not named <= set(PRIVILEGES):
        raise ValueError(text)
    return named


def _level(text: str) -> str:
    if text.lower() not in ("debug", "info", "warning", "error"):
        raise ValueError(text)
    return text.upper()
