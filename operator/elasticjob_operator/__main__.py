"""The operator's process: ``python -m elasticjob_operator``. What can't be used ends it with one clear line.

It ends by itself, non-zero, when it has lost its turn or its sight of the cluster: Kubernetes starts it anew.
"""

import asyncio
import os
import pathlib
import sys

from elasticjob_operator.api import settings

NAMESPACE_FILE = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def main(arguments: list[str] | None = None) -> int:
    """Run the operator until it is told to stop; its exit code."""
    try:
        namespace = NAMESPACE_FILE.read_text().strip() if NAMESPACE_FILE.exists() else ""
        found = settings.parse(sys.argv[1:] if arguments is None else arguments, os.environ, namespace=namespace)
    except settings.SettingsError as error:
        return _complain(str(error))
    try:
        from elasticjob_operator import running  # noqa: PLC0415 - only here is it known whether the extra is installed
    except ModuleNotFoundError as error:
        return _complain(f"{error.name} is not installed; in a checkout: pip install '.[operator]'")
    try:
        return asyncio.run(running.run(found))
    except running.StartError as error:
        return _complain(str(error))


def _complain(message: str) -> int:
    print(f"elasticjob-operator: {message}", file=sys.stderr)  # noqa: T201 - there is no log yet
    return 1


if __name__ == "__main__":
    sys.exit(main())
