"""Where a process's cgroups are, on hosts of either version; the texts are as a kernel writes them."""

from pathlib import Path

from cluster import cgroups


def folders(own: str, mounts: str) -> list[Path]:
    return [tree.folder for tree in cgroups.trees(own, mounts)]


V1_MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
"""


def test_version_1_has_a_folder_for_each_tree() -> None:
    own = "9:name=systemd:/\n4:memory:/user/1\n1:cpu,cpuacct:/\n0::/\n"

    assert folders(own, V1_MOUNTS) == [
        Path("/sys/fs/cgroup/systemd"),
        Path("/sys/fs/cgroup/memory/user/1"),
        Path("/sys/fs/cgroup/cpu,cpuacct"),
        Path("/sys/fs/cgroup/unified"),
    ]


def test_each_tree_is_mounted_by_what_tells_it_from_others() -> None:
    own = "9:name=systemd:/\n1:cpu,cpuacct:/\n0::/\n"

    assert [tree.mounting for tree in cgroups.trees(own, V1_MOUNTS)] == [
        "mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd",
        "mount -t cgroup -o cpu,cpuacct cgroup /sys/fs/cgroup/cpu,cpuacct",
        "mount -t cgroup2 cgroup /sys/fs/cgroup/unified",
    ]


def test_version_2_has_one_folder() -> None:
    mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"

    assert folders("0::/user.slice/session-1.scope\n", mounts) == [Path("/sys/fs/cgroup/user.slice/session-1.scope")]


def test_a_tree_that_is_not_mounted_is_left_out() -> None:
    assert folders("7:hugetlb:/\n", V1_MOUNTS) == []


def test_a_tree_that_is_mounted_from_below_its_root_is_seen_from_there() -> None:
    mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"

    assert folders("4:memory:/docker/abc/x\n", mounts) == [Path("/sys/fs/cgroup/memory/x")]
