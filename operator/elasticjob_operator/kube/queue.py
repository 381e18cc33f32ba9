"""The queue between watches and workers: which jobs are to be looked at, and when.

Invariants: a key waits at most once, and is never worked on twice at the same time; what is added while it is worked on
is looked at again afterwards. Failures of one key put off that key alone.
"""

import asyncio
import random
from collections import deque
from typing import NamedTuple

PAUSE = 0.1
"""Seconds between two looks at one job: a pod that starts causes several events, which one look answers."""

BACKOFF_FIRST, BACKOFF_LONG, BACKOFF_MOST = 0.1, 30.0, 300.0
"""Seconds until a failed look is repeated: short after a lost race, doubling, with jitter, so that many jobs don't come
back together. No event tells of a quota that has room again, so a few jobs come back every half a minute; where many
fail, each as much later as keeps all of them together to about one look a second, and in the end five minutes.
"""


class Key(NamedTuple):
    """One job."""

    namespace: str
    name: str


class Queue:
    """Keys to work on. All methods but :meth:`get` return at once, and belong to the event loop's thread."""

    def __init__(self) -> None:
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._ready: deque[Key] = deque()
        self._running: set[Key] = set()
        self._again: set[Key] = set()
        self._started: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}
        self._woken = asyncio.Event()

    def add(self, key: Key, after: float = 0.0) -> None:
        """Look at the job, *after* so many seconds; sooner if that has been asked for already."""
        loop = asyncio.get_running_loop()
        due = max(loop.time() + after, self._started.get(key, float("-inf")) + PAUSE)
        timer = self._timers.get(key)
        if key in self._ready or (timer is not None and timer.when() <= due):
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_at(due, self._fire, key)

    def retry(self, key: Key, least: float = 0.0) -> float:
        """Look again after a failure; the seconds until then, at *least* as many as the server has asked for."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        longest = min(max(BACKOFF_LONG, float(len(self._failures))), BACKOFF_MOST)
        most = min(BACKOFF_FIRST * 2 ** min(count - 1, 20), longest)
        seconds = max(least, random.uniform(most / 2, most))  # noqa: S311 - spreading load, not a secret
        self.add(key, seconds)
        return seconds

    def idle(self, key: Key) -> float:
        """Seconds since the job was looked at last; endless if it never was."""
        return asyncio.get_running_loop().time() - self._started.get(key, float("-inf"))

    def forgive(self, key: Key) -> None:
        """The key has been worked on with success: the next failure is its first."""
        self._failures.pop(key, None)

    def forget(self, key: Key) -> None:
        """The job is gone: nothing of it stays in memory. What was asked for just now may be a new one of its name."""
        self._started.pop(key, None)
        self._failures.pop(key, None)
        timer = self._timers.get(key)
        if timer is not None and timer.when() > asyncio.get_running_loop().time() + PAUSE:
            self._timers.pop(key).cancel()

    async def get(self) -> Key:
        """The next key; the caller has to call :meth:`done` with it."""
        while not self._ready:
            self._woken.clear()
            await self._woken.wait()
        key = self._ready.popleft()
        self._running.add(key)
        self._started[key] = asyncio.get_running_loop().time()
        return key

    def done(self, key: Key) -> None:
        """The key has been worked on, well or not."""
        self._running.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _fire(self, key: Key) -> None:
        self._timers.pop(key, None)
        if key in self._running:
            self._again.add(key)
        else:
            self._ready.append(key)
            self._woken.set()
