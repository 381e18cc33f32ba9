"""A token bucket for what the whole cluster has to digest: pods made by all jobs together."""

import asyncio


class Pace:
    """At most *rate* a second, after a first burst of one second's worth."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._next: float | None = None

    async def turn(self) -> None:
        """Wait until it is this caller's turn; turns are given in the order of the calls."""
        now = asyncio.get_running_loop().time()
        start = max(now - 1.0, self._next if self._next is not None else now - 1.0)
        self._next = start + 1.0 / self._rate
        if self._next > now:
            await asyncio.sleep(self._next - now)
