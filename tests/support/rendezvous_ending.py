"""A process that shuts its interpreter down while threads of it use a store, as an agent's may."""

from __future__ import annotations

import ctypes
import threading
import time

from elasticjob_rendezvous import stores


def end(joined: bool) -> None:  # noqa: FBT001 - called by a fork, by position
    """Ends this process as Python ends: *joined* threads first."""
    server, stop = stores.bind("127.0.0.1"), threading.Event()
    clients = [stores.join("127.0.0.1", server.port, timeout=30) for _ in range(4)]

    def ask(store: stores.TCPStore) -> None:
        while not stop.is_set():
            store.set("key", "value" * 1000)
            store.multi_get(["key"] * 50)

    threads = [threading.Thread(target=ask, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    if joined:
        stop.set()
        stores.join_threads(threads, {server.port})
    ctypes.pythonapi.Py_Exit(0)
