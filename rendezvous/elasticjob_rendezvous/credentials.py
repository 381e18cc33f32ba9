"""Whose word a process has at the API server: that of its pod's ServiceAccount, or a kubeconfig's."""

from __future__ import annotations

from typing import Any

_NAMESPACE_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


class NoCredentialsError(Exception):
    """There is no way to the API server."""


def client(kubeconfig: str, context: str) -> tuple[Any, str]:
    """A configured client and the namespace that goes with it: the pod's ServiceAccount's, or a kubeconfig's where one
    is named or there is no ServiceAccount.

    Raises:
        NoCredentialsError: there is neither, or it can't be read.
    """
    from kubernetes import client as clients  # noqa: PLC0415 - a second to import
    from kubernetes import config  # noqa: PLC0415

    configuration = clients.Configuration()
    configuration.retries = False  # each of ours knows whether to repeat
    try:
        if kubeconfig or context or not _in_pod():
            namespace = _load_kubeconfig(config, configuration, kubeconfig or None, context or None)
        else:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            with open(_NAMESPACE_FILE, encoding="utf-8") as file:  # noqa: PTH123 - plain text, nothing to compose
                namespace = file.read().strip()
    except (config.ConfigException, OSError, LookupError, TypeError, ValueError) as error:
        raise NoCredentialsError(
            "no way to the Kubernetes API: this is no pod with a ServiceAccount's token, and no kubeconfig can be used "
            f"(--rdzv-conf kubeconfig=FILE,context=NAME): {error}"
        ) from error
    return clients.ApiClient(configuration), namespace


def _in_pod() -> bool:
    try:
        with open(_NAMESPACE_FILE, encoding="utf-8"):  # noqa: PTH123 - only whether it can be read
            return True
    except OSError:
        return False


def _load_kubeconfig(config: Any, configuration: Any, file: str | None, context: str | None) -> str:
    config.load_kube_config(config_file=file, context=context, client_configuration=configuration)
    contexts, active = config.list_kube_config_contexts(config_file=file)
    chosen = next((c for c in contexts if c["name"] == context), active)
    return str(chosen["context"].get("namespace") or "default")
