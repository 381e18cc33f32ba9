"""The cache folder: what is expensive to make is made once per user, under a name that is a hash of all its inputs.

Nothing here knows what is cached. A thing in the cache is complete or absent: it is made under a temporary name and
renamed, and a lock keeps two processes from making the same thing at once.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path


def root() -> Path:
    """This project's folder among the user's caches."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "elasticjob"


def key(parts: Iterable[str | bytes]) -> str:
    """A name for the inputs: the same parts in the same order give the same name, and no two lists share one."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock; the kernel drops it when the holder dies, however it dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def lock_if_free(path: Path) -> Iterator[bool]:
    """Hold the lock if nobody else does; whether it is held is what the block is told."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def made(path: Path, make: Callable[[Path], None]) -> Path:
    """Return `path`, and have it made if it is not there: `make` fills a temporary path, which is then renamed."""
    if path.exists():
        return path
    with lock(path.with_name(f".{path.name}.lock")):
        if not path.exists():
            draft = path.with_name(f".{path.name}.draft")
            remove(draft)
            make(draft)
            draft.rename(path)
    return path


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
