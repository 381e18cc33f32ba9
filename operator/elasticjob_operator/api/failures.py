"""What a job makes of failures: their classes, and a budget for each. ``spec.failurePolicy`` as a frozen value.

Exit codes are as a shell shows them, from 0 to 255: a process that signal *n* has ended has 128 + *n*, be it a pod's
first process or a worker, whose end torch reports as a negative number.
"""

import dataclasses
import enum

SIGNALLED = 128
"""Exit codes above it are signals."""


class FailureClass(str, enum.Enum):
    """Whose doing a failure is, and so which budget it is taken from."""

    USER_ERROR = "UserError"
    """The program's own: it may well fail again."""
    INFRASTRUCTURE = "Infrastructure"
    """The machine's or the cluster's: elsewhere, or later, it would not have failed."""
    PREEMPTION = "Preemption"
    """Somebody needs the place: not a failure but a disruption."""
    FATAL = "Fatal"
    """It would fail again for sure: the job has failed, whatever is left of any budget."""


@dataclasses.dataclass(frozen=True)
class ExitCodes:
    """Exit codes that mean a class in this job."""

    codes: frozenset[int]
    what: FailureClass


@dataclasses.dataclass(frozen=True)
class FailurePolicy:
    """``spec.failurePolicy``. A budget of ``None`` has no end."""

    max_failures: int
    max_infrastructure: int
    max_disruptions: int | None
    refill_steps: int
    """Steps of training, beyond the furthest before a failure, that give all budgets back; 0 is never."""
    exit_codes: tuple[ExitCodes, ...] = ()
    progress_deadline: int | None = None
    """Seconds without progress after which a round is taken for hung; ``None`` is never."""


def shell_code(code: int) -> int:
    """An exit code as a shell shows it: torch has a worker's signal as a negative number."""
    return SIGNALLED - code if code < 0 else code
