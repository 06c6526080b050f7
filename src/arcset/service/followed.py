"""What is worked out from a whole gallery, and kept until anybody changes the gallery."""

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from arcset.recognition.gallery import Gallery

__all__ = ["Followed"]

T = TypeVar("T")


class Followed:
    """Remembers results by name for as long as the gallery's file stays as it is.

    A connection of its own tells whether anybody committed, this process or another one; SQLite
    itself opens it, as closing a file that is opened in any other way would drop SQLite's locks.
    Where it cannot be asked, nothing is remembered. Threads may share one.
    """

    def __init__(self, gallery: Gallery) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[int, Any]] = {}
        self._connection: sqlite3.Connection | None = None
        if not isinstance(gallery.path, Path):
            return
        with contextlib.suppress(sqlite3.Error):
            address = f"{gallery.path.absolute().as_uri()}?mode=ro"
            self._connection = sqlite3.connect(address, uri=True, check_same_thread=False)

    def of(self, name: str, make: Callable[[], T]) -> T:
        """What `make` returned last, or returns now if the gallery has changed since."""
        with self._lock:
            version = self._version()  # before: what comes meanwhile is seen later
            if version is None:
                return make()
            if self._kept.get(name, (None,))[0] != version:
                self._kept[name] = version, make()
            found: T = self._kept[name][1]
            return found

    def _version(self) -> int | None:
        """A number that changes with every commit of another connection."""
        if self._connection is None:
            return None
        try:
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error:
            return None

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
