"""Teams' shares of the accelerators as an administrator writes them. Reads and refuses; what they mean in a decision is
the allocator's affair.
"""

import dataclasses
import json
from typing import Any

from elasticjob_operator.api.words import counted

MOST, MOST_WEIGHT = 10**8, 10**6
"""Of a queue's accelerators, more than there are, and of a weight: far beyond, shares can't be reckoned with."""


@dataclasses.dataclass(frozen=True)
class Queue:
    """A team's share; its fields mean what those of the allocator's queues mean."""

    name: str
    weight: float = 1.0
    quota: int | None = None
    limit: int | None = None


class QueueError(ValueError):
    """Shares that contradict themselves; the message names the queue and says what to do."""


def parse(text: str) -> tuple[Queue, ...]:
    """The queues of a JSON list of objects.

    Raises:
        QueueError: says what is wrong with which queue.
        ValueError: it is no such list at all.
    """
    listed = json.loads(text)
    if not (isinstance(listed, list) and all(isinstance(entry, dict) for entry in listed)):
        raise ValueError(text)
    found = tuple(_queue(entry) for entry in listed)
    names = [queue.name for queue in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise QueueError(f"there are two queues named {twice[0]!r}: make them one")
    return found


def _queue(entry: dict[str, Any]) -> Queue:
    name = entry.get("name")
    if not (name and isinstance(name, str)):
        raise QueueError(f"a queue without a name: {json.dumps(entry)}")
    if unknown := sorted(entry.keys() - {field.name for field in dataclasses.fields(Queue)}):
        raise QueueError(f"queue {name!r} has {', '.join(unknown)}: there are name, weight, quota and limit")
    queue = Queue(**entry)
    if not (_is_number(queue.weight) and 0 <= queue.weight <= MOST_WEIGHT):
        raise QueueError(f"queue {name!r}: its weight must be a number from 0 to {MOST_WEIGHT}, not {queue.weight!r}")
    for field, count in (("quota", queue.quota), ("limit", queue.limit)):
        if count is not None and not (_is_number(count) and isinstance(count, int) and 0 <= count <= MOST):
            raise QueueError(f"queue {name!r}: its {field} is a number of accelerators from 0 to {MOST}, not {count!r}")
    if queue.quota is not None and queue.limit is not None and queue.quota > queue.limit:
        raise QueueError(
            f"queue {name!r}: its quota of {counted(queue.quota, 'accelerator')} is above its limit of {queue.limit}: "
            f"lower the quota or raise the limit"
        )
    return queue


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
