"""A cluster node's machine: containerd, kubelet and kube-proxy, and the files they are configured with.

The kernel underneath is shared, so what is host-wide (conntrack limits, cgroups, OOM scores) is left alone. Everything
else is as on a real node.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import yaml

from cluster import addresses, containerd, kubeconfigs, machines, pki, tools

COMPONENTS = ("containerd", "kubelet", "kube-proxy")

# How often a kubelet reports; see control_plane.NODE_GRACE_SECONDS.
REPORT_SECONDS = 4
LEASE_SECONDS = 12


@dataclass(frozen=True)
class Node:
    """The files, commands and set-up of one node."""

    machine: machines.Machine
    own: addresses.Addresses
    authority: pki.Authority

    @property
    def name(self) -> str:
        """The node's name in Kubernetes."""
        return self.machine.name

    @property
    def number(self) -> int:
        """The node's number, from which its addresses follow."""
        return addresses.node_number(self.name)

    @property
    def address(self) -> str:
        """The node's address."""
        return self.own.node(self.number)

    @property
    def images(self) -> Path:
        """containerd's root: images and their layers."""
        return self.machine.home / "containerd"

    def prepare(self) -> None:
        """Write certificates, kubeconfigs and the components' configuration."""
        home = self.machine.home
        for folder in ("cni", "kubelet", "pod-logs"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        self._kubeconfig("kubelet", pki.kubelet(self.name, self.address))
        self._kubeconfig("kube-proxy", pki.PROXY)
        containerd_config = containerd.configuration(root=self.images, pod_network=home / "cni")
        (home / "containerd.toml").write_text(containerd_config)
        (home / "cni" / "10-pods.conflist").write_text(json.dumps(self.pod_network(), indent=2))
        (home / "kubelet.yaml").write_text(yaml.safe_dump(self.kubelet(), sort_keys=False))

    def command(self, component: str) -> list[str]:
        """The whole command line of the kubelet or kube-proxy; containerd is started by its own module."""
        flags = {"kubelet": self._kubelet_flags, "kube-proxy": self._proxy_flags}[component]()
        return [str(tools.path(component)), *(f"--{flag}={value}" for flag, value in flags.items())]

    def pod_network(self) -> dict[str, object]:
        """The CNI configuration: a bridge on the node, its pods on the node's own subnet, no address translation."""
        bridge = {
            "type": "bridge",
            "bridge": "pods0",
            "isDefaultGateway": True,
            "ipMasq": False,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "dataDir": "/run/cni",
                "ranges": [[{"subnet": addresses.pod_subnet(self.number)}]],
            },
        }
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}

    def kubelet(self) -> dict[str, object]:
        """The kubelet's configuration."""
        home, pair = self.machine.home, self._pair("kubelet")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{self.authority.certificate}"},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{pair.certificate}",
            "tlsPrivateKeyFile": f"{pair.key}",
            "clusterDNS": [self.own.control_plane],
            "clusterDomain": "cluster.local",
            "resolvConf": "",
            "podLogsDir": f"{home}/pod-logs",
            "volumePluginDir": f"{home}/volume-plugins",
            "nodeStatusUpdateFrequency": f"{REPORT_SECONDS}s",
            "nodeStatusReportFrequency": f"{REPORT_SECONDS}s",
            "nodeLeaseDurationSeconds": LEASE_SECONDS,
            "failSwapOn": False,
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "cpuCFSQuota": False,  # two cores for everybody: a limit would only make tests wait
            "enforceNodeAllocatable": [],
            "localStorageCapacityIsolation": False,
            "evictionHard": {},
            "imageGCHighThresholdPercent": 100,
        }

    def _kubelet_flags(self) -> dict[str, str]:
        home = self.machine.home
        return {
            "config": f"{home}/kubelet.yaml",
            "kubeconfig": f"{home}/kubelet.kubeconfig",
            "hostname-override": self.name,
            "node-ip": self.address,
            "root-dir": f"{home}/kubelet",
            "cert-dir": f"{home}/kubelet-pki",
        }

    def _proxy_flags(self) -> dict[str, str]:
        # The conntrack limits are the host's: 0 leaves them as they are.
        return {
            "kubeconfig": f"{self.machine.home}/kube-proxy.kubeconfig",
            "hostname-override": self.name,
            "proxy-mode": "nftables",
            "cluster-cidr": addresses.POD_SUBNET,
            "conntrack-max-per-core": "0",
            "conntrack-min": "0",
        }

    def _pair(self, component: str) -> pki.Pair:
        return self.authority.pair(self._file(component))

    def _file(self, component: str) -> str:
        return f"{self.name}-{component}"

    def _kubeconfig(self, component: str, identity: pki.Identity) -> None:
        pair = self.authority.issue(self._file(component), identity)
        target = self.machine.home / f"{component}.kubeconfig"
        kubeconfigs.write(target, name=self.name, url=self.own.api_url, authority=self.authority, pair=pair)
