"""Why a job has ended, as a value: what a rule of ``closing`` answers."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One CamelCase word for conditions and columns, and a sentence for people."""

    reason: str
    message: str
