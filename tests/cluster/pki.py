"""The cluster's certificates: one small authority, and one certificate for each component and person.

Made with the openssl program, so that the package needs no cryptography library. Keys never leave the cluster's folder.
"""

from dataclasses import dataclass
from pathlib import Path

from cluster import addresses, running

# Without the system's own configuration, which may add extensions of its own.
_NEW_KEY = ("-config", "/dev/null", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "365")
# Python 3.13 refuses certificates that leave any of these out, and the authority's if it does not say what it is for.
_LEAF = (
    "basicConstraints=critical,CA:FALSE",
    "keyUsage=critical,digitalSignature",
    "extendedKeyUsage=clientAuth,serverAuth",
    "subjectKeyIdentifier=hash",
    "authorityKeyIdentifier=keyid",
)


@dataclass(frozen=True)
class Identity:
    """Who a certificate speaks for: Kubernetes reads the user from the name, its groups from the organization."""

    name: str
    group: str = ""
    hosts: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The certificate's subject, as openssl wants it."""
        return (f"/O={self.group}" if self.group else "") + f"/CN={self.name}"

    @property
    def alternatives(self) -> str:
        """The addresses and host names that a server with this certificate may be reached under."""
        return ",".join(f"{'IP' if host.replace('.', '').isdecimal() else 'DNS'}:{host}" for host in self.hosts)


ADMIN = Identity("kubernetes-admin", "system:masters")
TO_KUBELETS = Identity("kube-apiserver-kubelet-client", "system:masters")
CONTROLLERS = Identity("system:kube-controller-manager")
SCHEDULER = Identity("system:kube-scheduler")
PROXY = Identity("system:kube-proxy")


def api_server(own: addresses.Addresses) -> Identity:
    """The API server, under every name and address that it is reached by."""
    names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    return Identity("kube-apiserver", hosts=(*names, "127.0.0.1", addresses.API_SERVICE, own.control_plane))


def kubelet(name: str, address: str) -> Identity:
    """A kubelet, both as a client (its name and group are what the Node authorizer knows) and as a server."""
    return Identity(f"system:node:{name}", "system:nodes", (name, address))


@dataclass(frozen=True)
class Authority:
    """The folder with the authority's certificate and key, and with all that it has issued."""

    folder: Path

    @property
    def certificate(self) -> Path:
        """What everybody trusts."""
        return self.folder / "ca.crt"

    @property
    def account_key(self) -> Path:
        """The key that signs ServiceAccount tokens."""
        return self.folder / "service-accounts.key"

    def create(self) -> None:
        """Make the authority and the ServiceAccount key."""
        self.folder.mkdir(parents=True)
        output = ("-keyout", self.folder / "ca.key", "-out", self.certificate)
        extensions = _extensions("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign")
        subject = ("-subj", "/CN=elasticjob-test-cluster")
        running.run("openssl", "req", "-x509", *_NEW_KEY, *output, *subject, *extensions)
        running.run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.account_key)

    def pair(self, file: str) -> "Pair":
        """Where a certificate and its key are, or will be."""
        return Pair(self.folder / f"{file}.crt", self.folder / f"{file}.key")

    def issue(self, file: str, identity: Identity) -> "Pair":
        """Issue a certificate, good for client and server use, and return where it and its key are."""
        pair = self.pair(file)
        hosts = [f"subjectAltName={identity.alternatives}"] if identity.hosts else []
        extensions = _extensions(*_LEAF, *hosts)
        signer = ("-CA", self.certificate, "-CAkey", self.folder / "ca.key")
        output = ("-keyout", pair.key, "-out", pair.certificate, "-subj", identity.subject)
        running.run("openssl", "req", "-x509", *_NEW_KEY, *signer, *output, *extensions)
        return pair


def _extensions(*extensions: str) -> list[str]:
    return [word for extension in extensions for word in ("-addext", extension)]


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path
