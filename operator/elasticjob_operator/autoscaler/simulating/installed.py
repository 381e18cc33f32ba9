"""The operator's settings as the chart installs them, from the same values file: read by the operator's own parser, so
that what is refused here is refused there, and the other way round.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from elasticjob_operator.api import settings
from elasticjob_operator.autoscaler.simulating import inputs

if TYPE_CHECKING:
    import pathlib

FLAGS = {
    "mode": "autoscaler",
    "accelerators": "accelerators",
    "topologyLabel": "topology-label",
    "packing": "packing",
    "queues": "queues",
    "pendingAccelerators": "pending-accelerators",
    "volatileMinimum": "volatile-minimum",
}
"""The operator's flag for each of the chart's values under `autoscaler`, as its deployment.yaml passes them."""


def read(path: pathlib.Path | None) -> settings.Autoscaler:
    """What the chart would install with this file of values alone; without one, the defaults.

    Raises:
        inputs.InputError: a value of the autoscaler cannot be used; says where and why.
        OSError: the file cannot be opened.
    """
    part = inputs.document(path) if path else None
    top = part.entries() if part else {}
    values = top["autoscaler"].entries(FLAGS) if "autoscaler" in top else {}
    flags = [_flag(name, value) for name, value in values.items()]
    return settings.parse(flags, {}).autoscaler


def _flag(name: str, part: inputs.Part) -> str:
    try:
        flag = f"--{FLAGS[name]}={_text(name, part.value)}"
        settings.parse([flag], {})
    except settings.SettingsError as error:
        raise part.wrong(f"autoscaler.{name}: {error.why}") from error
    except (TypeError, ValueError) as error:
        raise part.wrong(f"autoscaler.{name}: {error}") from error
    return flag


def _text(name: str, value: object) -> str:
    """As the chart's template writes it into an environment variable."""
    if isinstance(value, list) and name != "queues":
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)
