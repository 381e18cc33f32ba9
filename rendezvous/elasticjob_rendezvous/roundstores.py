"""The store that torch's dynamic handler is given for its agents: a fresh TCPStore for each round, at whoever is first.

torch's handler knows its rank only after it has been given a store, and calls it by keys that name the round. So the
first member that uses a round's store binds it and writes its address into the ConfigMap; the others read it there.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousStateError

from elasticjob_rendezvous import kube, stores

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

    from elasticjob_rendezvous.texts import Texts
else:
    from torch.distributed import Store

CONNECT_SECONDS = 30.0
"""For a connection to a member that has bound its store a moment ago."""

_ANNOUNCED = "torch.store."
_ANNOUNCEMENT = re.compile(rf"(\d{{1,9}}) ({stores.ADDRESS.pattern})")


class RoundStores(Store):
    """Passes each call on to the TCPStore of the round that its key names (``torch.rendezvous.ID.ROUND/...``)."""

    def __init__(self, texts: Texts, *, run_id: str, address: str) -> None:
        """*address* is where the other members reach this one."""
        super().__init__()
        self._texts, self._key, self._address = texts, _ANNOUNCED + run_id, address
        self._round = -1
        self._store: Any = None

    def set(self, key: str, value: Any) -> None:  # torch hands over bytes, and promises text
        self._of(key).set(key, value)

    def get(self, key: str) -> bytes:
        return bytes(self._of(key).get(key))

    def add(self, key: str, amount: int) -> int:
        return int(self._of(key).add(key, amount))

    def check(self, keys: list[str]) -> bool:
        return bool(self._of(keys[0]).check(keys))

    def wait(self, keys: list[str], *timeout: dt.timedelta) -> None:
        self._of(keys[0]).wait(keys, *timeout)

    def _of(self, key: str) -> Any:
        number = int(key.partition("/")[0].rpartition(".")[2])
        if number != self._round:
            self._store, self._round = self._meet(number), number
        return self._store

    def _meet(self, number: int) -> Any:
        """The store of a round: as it is announced, or else this member's own, if its announcement is the first."""
        own = None
        try:
            while (store := self._announced(number, self._texts.read())) is None:
                own = own or stores.bind(self._address)
                text = f"{number} {stores.joined(self._address, own.port)}"
                if self._texts.write({**self._texts.data, self._key: text}):
                    return own
            address, port = stores.split(store)
            found = stores.join(address, port, timeout=CONNECT_SECONDS)
            found.set_timeout(dt.timedelta(seconds=stores.OPERATION_TIMEOUT))
        except (kube.KubeError, RuntimeError) as error:
            raise RendezvousConnectionError(f"the store of round {number} can't be reached: {error}") from error
        return found

    def _announced(self, number: int, data: dict[str, str]) -> str | None:
        found = _ANNOUNCEMENT.fullmatch(data.get(self._key, ""))
        if found is None or int(found[1]) < number:
            return None
        if int(found[1]) > number:
            raise RendezvousStateError(f"round {number} is over: round {found[1]} has a store already")
        return found[2]
