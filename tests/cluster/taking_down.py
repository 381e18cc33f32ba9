"""Taking a cluster down so that nothing of it stays: no process, mount, link, namespace, cgroup or file.

It needs to know only the name, and works on whatever state a crash has left.
"""

from cluster import addresses, caching, cgroups, folders, machines, wiring
from cluster.images import stocks


def take_down(name: str) -> None:
    """Take down the cluster of this name; one that is not there is no error."""
    folder = folders.of(name)
    machines.kill_all(folder.path)
    cgroups.remove(folder.cgroup)
    index = folder.index()
    if index is not None:
        wiring.remove_host_link(addresses.Addresses(index))
    caching.remove(folder.path)
    stocks.clear_abandoned()
