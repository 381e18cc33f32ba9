"""How a job's agents find each other: ``spec.rendezvous`` as a frozen value."""

import dataclasses
import enum
from collections.abc import Mapping


class Backend(str, enum.Enum):
    """A value of torchrun's ``--rdzv-backend``."""

    KUBERNETES = "kubernetes"
    KUBERNETES_DYNAMIC = "kubernetes-dynamic"
    C10D = "c10d"
    ETCD_V2 = "etcd-v2"
    ETCD = "etcd"
    STATIC = "static"


ETCD_BACKENDS = (Backend.ETCD_V2, Backend.ETCD)


@dataclasses.dataclass(frozen=True)
class Rendezvous:
    """The backend and what it needs. ``conf`` is torchrun's ``--rdzv-conf``."""

    backend: Backend = Backend.KUBERNETES
    conf: Mapping[str, str] = dataclasses.field(default_factory=dict)
    etcd_endpoint: str = ""
    etcd_managed: bool = False

    @property
    def told(self) -> bool:
        """Whether the agents tell the operator what they do, and are told by it: only our own backend's do."""
        return self.backend is Backend.KUBERNETES

    @property
    def uses_api(self) -> bool:
        """Whether the agents need the Kubernetes API."""
        return self.backend in (Backend.KUBERNETES, Backend.KUBERNETES_DYNAMIC)

    @property
    def hosted(self) -> bool:
        """Whether slot 0 hosts the store at which all meet, so that there is no group without it."""
        return self.backend in (Backend.C10D, Backend.STATIC)

    @property
    def placed(self) -> bool:
        """Whether an object besides the pods has to be there for them to meet."""
        return self.hosted or self.etcd_managed or self.backend is Backend.KUBERNETES_DYNAMIC

    @property
    def elastic(self) -> bool:
        """Whether a group goes on when one of its nodes is lost, and takes in others."""
        return self.backend is not Backend.STATIC
