"""One training at a time in a run folder."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from arcset.errors import RunError

try:
    import fcntl
except ImportError:  # Windows, where a folder is not kept
    fcntl = None  # type: ignore[assignment]

__all__ = ["LOCK_FILE", "locked"]

LOCK_FILE = ".lock"
_held: set[tuple[Path, int]] = set()  # folders, each with the thread that keeps it


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep the folder `path` to this thread, which may ask for it again, while the block lasts.

    A folder that is missing is made, and removed again if it is still empty at the end. The lock is
    the kernel's, so that it ends with the process, however that dies. Raises `RunError` where
    another training has it.
    """
    key = (path.resolve(), threading.get_ident())
    if fcntl is None or key in _held:
        yield
        return
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    handle = _acquired(path)
    _held.add(key)
    try:
        yield
    finally:
        _held.discard(key)
        (path / LOCK_FILE).unlink(missing_ok=True)
        os.close(handle)
        with suppress(OSError):  # one that is not empty
            for folder in made:
                folder.rmdir()


def _acquired(path: Path) -> int:
    """The handle of the lock file, locked."""
    file = path / LOCK_FILE
    while True:
        path.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            continue  # the folder went just now, with a training that was refused
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise RunError(
                f"{path} is being trained by another process: wait for it, or name another folder"
            ) from None
        except OSError:
            return handle  # a file system that knows no locks
        # A file that its owner removed before this process had the lock keeps nobody out.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), file.stat()):
                return handle
        os.close(handle)
