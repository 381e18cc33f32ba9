"""How a node of each backend comes to its handler, and what torchrun is told: what runs in the nodes' own processes.

Light to import: a process of a crowd does it anew.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol

from bench.rendezvous import counting

if TYPE_CHECKING:
    from torch.distributed.elastic.rendezvous import RendezvousHandler

ADDRESS = "127.0.0.1"
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""With torch's default, a store for all rounds, its backends get over no newcomer and not always over a restart."""


class Join(Protocol):
    """The way into one job's rendezvous. The same value serves all nodes."""

    def make(self, node: int, meter: counting.Meter) -> RendezvousHandler:
        """The handler of one node."""

    def flags(self, node: int) -> dict[str, str]:
        """Torchrun's flags for one node."""

    def environment(self, node: int) -> dict[str, str]:
        """What torchrun's environment has besides."""


@dataclasses.dataclass(frozen=True)
class Kubernetes:
    """Ours. The API is found as in a pod (:mod:`bench.rendezvous.quiet`). ``planned``: the job has an operator."""

    endpoint: str
    uid: str
    low: int
    high: int
    planned: bool

    def make(self, node: int, _meter: counting.Meter) -> RendezvousHandler:
        from elasticjob_rendezvous import handler, settings  # noqa: PLC0415 - torch, seconds to import

        config = settings.parse(
            endpoint=self.endpoint,
            run_id=self.uid,
            low=self.low,
            high=self.high,
            local_addr=ADDRESS,
            conf={},
            env=self.environment(node),
        )
        return handler.KubernetesRendezvousHandler(config)

    def flags(self, node: int) -> dict[str, str]:
        return {"rdzv-backend": "kubernetes", "rdzv-endpoint": self.endpoint, "rdzv-id": self.uid}

    def environment(self, node: int) -> dict[str, str]:
        slot = "ELASTICJOB_SLOT" if self.planned else "JOB_COMPLETION_INDEX"
        return {slot: str(node), "ELASTICJOB_POD_UID": f"pod-{node}"}


@dataclasses.dataclass(frozen=True)
class C10d:
    """Torch's default: a TCPStore on the first node."""

    port: int
    uid: str
    low: int
    high: int

    def make(self, node: int, meter: counting.Meter) -> RendezvousHandler:
        from torch.distributed.elastic.rendezvous import RendezvousParameters  # noqa: PLC0415 - seconds to import
        from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend as c10d  # noqa: PLC0415
        from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler  # noqa: PLC0415

        endpoint, host = f"{ADDRESS}:{self.port}", {"is_host": str(node == 0)}
        parameters = RendezvousParameters("c10d", endpoint, self.uid, self.low, self.high, ADDRESS, **host)
        backend, store = c10d.create_backend(parameters)
        meter.add()  # by the backend's constructor
        counted: Any = counting.CountedStore(store, meter)
        backend._store = counted
        return create_handler(store, backend, parameters)

    def flags(self, node: int) -> dict[str, str]:
        return {
            "rdzv-backend": "c10d",
            "rdzv-endpoint": f"{ADDRESS}:{self.port}",
            "rdzv-id": self.uid,
            "rdzv-conf": f"is_host={node == 0}",
        }

    def environment(self, node: int) -> dict[str, str]:
        return OWN_STORE


@dataclasses.dataclass(frozen=True)
class EtcdV2:
    """Torch's etcd-v2."""

    port: int
    uid: str
    low: int
    high: int

    def make(self, node: int, meter: counting.Meter) -> RendezvousHandler:
        from torch.distributed.elastic.rendezvous import RendezvousParameters  # noqa: PLC0415 - seconds to import
        from torch.distributed.elastic.rendezvous import etcd_rendezvous_backend as etcd  # noqa: PLC0415
        from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler  # noqa: PLC0415

        parameters = RendezvousParameters("etcd-v2", f"{ADDRESS}:{self.port}", self.uid, self.low, self.high, ADDRESS)
        backend, store = etcd.create_backend(parameters)
        client: Any = backend._client
        execute = client.api_execute

        def counted(path: str, method: str, params: Any = None, timeout: Any = None) -> Any:
            answer = execute(path, method, params=params, timeout=timeout)
            meter.add(path, *map(str, (params or {}).values()), received=answer.data)
            return answer

        client.api_execute = counted
        return create_handler(store, backend, parameters)

    def flags(self, node: int) -> dict[str, str]:
        return {"rdzv-backend": "etcd-v2", "rdzv-endpoint": f"{ADDRESS}:{self.port}", "rdzv-id": self.uid}

    def environment(self, node: int) -> dict[str, str]:
        return OWN_STORE
