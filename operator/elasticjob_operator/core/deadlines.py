"""The times that a job is given: to form its first round, and to be done."""

from collections.abc import Iterator

from elasticjob_operator.api import conditions
from elasticjob_operator.core import arriving
from elasticjob_operator.core.situation import Situation
from elasticjob_operator.core.verdict import Verdict
from elasticjob_rendezvous.round.record import Phase

EXCEEDED = "DeadlineExceeded"
STARTUP_EXCEEDED = "StartupDeadlineExceeded"


def active(situation: Situation) -> Verdict | None:
    """The job has run for ``activeDeadlineSeconds``."""
    seconds = situation.spec.active_deadline
    if seconds is None or situation.since(situation.status.start_time) < seconds:
        return None
    return Verdict(EXCEEDED, f"the job was not done within spec.activeDeadlineSeconds, {seconds} s")


def startup(situation: Situation) -> Verdict | None:
    """No first round within ``startupDeadlineSeconds``. Why is what its pods lacked when they were last looked at."""
    seconds = situation.spec.startup_deadline
    if seconds is None or not _starts(situation) or situation.since(situation.status.start_time) < seconds:
        return None
    pods = conditions.find(situation.status.conditions, conditions.PODS_READY)
    why = f": {pods.reason}: {pods.message}" if pods and not pods.holds else ""
    return Verdict(STARTUP_EXCEEDED, f"no round was formed within spec.startupDeadlineSeconds, {seconds} s{why}")


def left(situation: Situation) -> Iterator[float]:
    """Seconds until each deadline that is running."""
    if situation.record.phase is Phase.CLOSED:
        return
    running = {situation.spec.active_deadline, situation.spec.startup_deadline if _starts(situation) else None}
    for seconds in running - {None}:
        yield max(1, (seconds or 0) - situation.since(situation.status.start_time))


def _starts(situation: Situation) -> bool:
    return arriving.first_start(situation.record)
