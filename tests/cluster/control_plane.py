"""The control plane's machine: etcd, API server, controller-manager and scheduler, as they run in production.

Real authorization (Node and RBAC), real admission and an audit log, because tests rely on being refused what they may
not do. The command lines are pure values, so that a test can look at them without running anything.
"""

from dataclasses import dataclass
from pathlib import Path

from cluster import addresses, kubeconfigs, machines, pki, tools

SERVERS = ("etcd", "kube-apiserver")
NAMES = "dns"
CONTROLLERS = ("kube-controller-manager", "kube-scheduler")

# Who asked for what and what was answered, once a request; and what writes to pods, jobs, rounds and Leases hold, by
# which the whole run is judged afterwards (support.audit_invariants).
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
  - level: Metadata
    verbs: [get, list, watch]
  - level: RequestResponse
    resources:
      - {group: "", resources: [pods, "pods/*", configmaps]}
      - {group: elasticjob.dev, resources: ["*"]}
      - {group: coordination.k8s.io, resources: [leases]}
  - level: Request
    verbs: [create]
    resources:
      - {group: "", resources: [services, serviceaccounts]}
      - {group: rbac.authorization.k8s.io, resources: [roles, rolebindings]}
      - {group: networking.k8s.io, resources: [networkpolicies]}
      - {group: policy, resources: [poddisruptionbudgets]}
  - level: Metadata
"""

# A lost node shows after 16 s, not 50: three of the kubelet's reports (see nodes.REPORT_SECONDS) may go missing and the
# fourth be late, as with the defaults of 10 s and 50 s, at a pace that a test can wait for.
NODE_GRACE_SECONDS = 16


@dataclass(frozen=True)
class ControlPlane:
    """The files and command lines of one control plane."""

    machine: machines.Machine
    own: addresses.Addresses
    authority: pki.Authority
    audit_log: Path

    def prepare(self, name: str) -> None:
        """Write certificates, kubeconfigs and the audit policy."""
        self.authority.issue("kube-apiserver", pki.api_server(self.own))
        self.authority.issue("to-kubelets", pki.TO_KUBELETS)
        # The name server reads what kube-proxy reads, Services and their endpoints, and so speaks as one.
        users = {"kube-controller-manager": pki.CONTROLLERS, "kube-scheduler": pki.SCHEDULER, NAMES: pki.PROXY}
        for file, identity in users.items():
            pair = self.authority.issue(file, identity)
            kubeconfigs.write(
                self.machine.home / f"{file}.kubeconfig",
                name=name,
                url=self.own.api_url,
                authority=self.authority,
                pair=pair,
            )
        (self.machine.home / "audit-policy.yaml").write_text(AUDIT_POLICY)

    def command(self, component: str) -> list[str]:
        """The whole command line of one component."""
        if component == NAMES:
            return [str(tools.path("dns")), f"{self.machine.home}/dns.kubeconfig", f"{self.own.control_plane}:53"]
        flags = {
            "etcd": self._etcd,
            "kube-apiserver": self._api_server,
            "kube-controller-manager": self._controllers,
            "kube-scheduler": self._scheduler,
        }[component]()
        return [str(tools.path(component)), *(f"--{flag}={value}" for flag, value in flags.items())]

    def _etcd(self) -> dict[str, str]:
        # The data is thrown away with the cluster, so nothing has to survive a power cut.
        client = "http://127.0.0.1:2379"
        return {
            "data-dir": f"{self.machine.home}/etcd",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": "http://127.0.0.1:2380",
            "unsafe-no-fsync": "true",
        }

    def _api_server(self) -> dict[str, str]:
        folder = self.authority.folder
        return {
            "etcd-servers": "http://127.0.0.1:2379",
            "advertise-address": self.own.control_plane,
            "secure-port": str(addresses.API_PORT),
            "client-ca-file": f"{self.authority.certificate}",
            "tls-cert-file": f"{folder}/kube-apiserver.crt",
            "tls-private-key-file": f"{folder}/kube-apiserver.key",
            "kubelet-certificate-authority": f"{self.authority.certificate}",
            "kubelet-client-certificate": f"{folder}/to-kubelets.crt",
            "kubelet-client-key": f"{folder}/to-kubelets.key",
            "kubelet-preferred-address-types": "InternalIP",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": f"{self.authority.account_key}",
            "service-account-signing-key-file": f"{self.authority.account_key}",
            "service-cluster-ip-range": addresses.SERVICE_SUBNET,
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "allow-privileged": "true",
            "audit-policy-file": f"{self.machine.home}/audit-policy.yaml",
            "audit-log-path": f"{self.audit_log}",
            "audit-log-maxsize": "1000",
        }

    def _controllers(self) -> dict[str, str]:
        kubeconfig = f"{self.machine.home}/kube-controller-manager.kubeconfig"
        return {
            "kubeconfig": kubeconfig,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "root-ca-file": f"{self.authority.certificate}",
            "service-account-private-key-file": f"{self.authority.account_key}",
            "use-service-account-credentials": "true",
            "leader-elect": "false",
            "node-monitor-grace-period": f"{NODE_GRACE_SECONDS}s",
            "node-monitor-period": "1s",
            "horizontal-pod-autoscaler-sync-period": "1s",  # not 15 s, which a test would wait for at each change
        }

    def _scheduler(self) -> dict[str, str]:
        kubeconfig = f"{self.machine.home}/kube-scheduler.kubeconfig"
        return {
            "kubeconfig": kubeconfig,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "leader-elect": "false",
        }
