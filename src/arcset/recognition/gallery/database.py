"""A gallery's SQLite file: opened so that what is committed stays, and its errors in sentences."""

import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from arcset.errors import DataError
from arcset.files import one_line
from arcset.recognition.gallery.schema import (
    APPLICATION_ID,
    CREATE,
    NOBODY,
    VERSION,
    check_file,
    check_schema,
    log_size,
    page_size,
)

__all__ = ["PATIENCE", "SQLITE_ERRORS", "UNDONE", "Database", "create_database", "discard_new"]

#: Seconds that a writer waits for another one.
PATIENCE = 10.0

#: What SQLite raises; the second where its own message quotes bytes of a damaged file.
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)

#: How the message of a transaction ends that was rolled back.
UNDONE = "; the change was not made"

# Per connection. FULL: a commit returns when the log is on the disk. secure_delete: freed bytes are
# overwritten. trusted_schema, cell_size_check: a file made to do harm is an error and no more.
_SETTINGS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA foreign_keys = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
)


class Database:
    """One connection to a gallery's file.

    Several may be open, in this process and others: many read while one writes, and a second
    writer waits for `PATIENCE` seconds. Where file or folder cannot be written, `read_only` is
    true whatever was asked for.

    Raises `DataError` for a file that is missing, damaged, or no gallery.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._process, self._closed = os.getpid(), False
        _register(self)
        self._writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        self.read_only = read_only or not self._writable
        try:
            with self.explained():
                self._connection = self._connect()
                try:
                    self._adjust()
                    check_schema(self._connection, path)
                except BaseException:
                    self._connection.close()
                    raise
        except BaseException:
            self._closed = True
            raise

    def holds(self, path: Path) -> bool:
        """Whether it is a connection of this process to that file, under whatever name."""
        if self._closed or self._process != os.getpid():
            return False
        try:
            return self.path.samefile(path)
        except OSError:
            return False

    def _connect(self) -> sqlite3.Connection:
        address = self.path.absolute().as_uri()
        if self._writable:
            return _connect(f"{address}?mode=rw")
        if self.log_size():
            raise DataError(
                f"{self.path} cannot be opened where nothing can be written, because"
                f" {self.path.name}-wal holds changes that are not in it yet: copy both"
            )
        # Nobody can write there, and SQLite is told so: it then needs no files beside this one.
        return _connect(f"{address}?mode=ro&immutable=1")

    def _adjust(self) -> None:
        for setting in _SETTINGS:
            self._connection.execute(setting)
        if self.read_only:
            self._connection.execute("PRAGMA query_only = ON")

    def execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:
        """Run one statement, inside a transaction or `reading`."""
        return self._connection.execute(sql, values)

    def execute_many(self, sql: str, rows: Any) -> None:
        """Run one statement for each of the rows, inside a transaction."""
        self._connection.executemany(sql, rows)

    def data_version(self) -> int:
        """A number that changes with every commit of another connection."""
        self._check_usable()
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def _check_usable(self) -> None:
        if self._closed or os.getpid() != self._process:
            what = "was closed" if self._closed else "was opened by the process before this one"
            raise DataError(f"{self.path} {what}: open it again")

    def begin(self) -> None:
        """Begin a transaction that changes the file; other writers wait until it ends."""
        self._check_usable()
        if self.read_only:
            why = "was opened for reading only" if self._writable else "cannot be written"
            raise DataError(f"{self.path} {why}; nothing was changed")
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except SQLITE_ERRORS as error:
            raise self.undone(error) from None

    def commit(self) -> None:
        """End it: what was changed is on the disk when this returns; if it raises, nothing is."""
        try:
            self._connection.execute("COMMIT")
        except BaseException as error:
            self.roll_back()
            if isinstance(error, SQLITE_ERRORS):
                raise self.undone(error) from None
            raise

    def roll_back(self) -> None:
        """End it: nothing was changed."""
        if self._connection.in_transaction:
            with self.explained():
                self._connection.execute("ROLLBACK")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One state of the file throughout the block, whatever others commit meanwhile."""
        self._check_usable()
        with self.explained():
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK")

    def checkpoint(self) -> bool:
        """Move what is in the log into the file and empty the log; False if a reader is in the way.

        Before that, the log may still hold what was removed.
        """
        with self.explained():
            busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def log_size(self) -> int:
        """Bytes in the log."""
        return log_size(self.path)

    def size(self) -> int:
        """Bytes that the gallery takes, log and all."""
        return self.path.stat().st_size + self.log_size()

    @contextmanager
    def unbound(self) -> Iterator[None]:
        """Without the checks that no row refers to one that is deleted, each of which reads much.

        For deleting what is known not to be referred to; around a transaction, not inside.
        """
        with self.explained():
            self._connection.execute("PRAGMA foreign_keys = OFF")
            try:
                yield
            finally:
                self._connection.execute("PRAGMA foreign_keys = ON")

    def vacuum(self) -> None:
        """Write the file anew, without anything that is not in its tables."""
        with self.explained():
            self._connection.execute("VACUUM")

    def close(self) -> None:
        """Let go of the file; whoever does so last also empties the log."""
        self._closed = True
        if os.getpid() == self._process:  # a child that closes would harm its parent's locks
            with self.explained():
                self._connection.close()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say in a sentence what SQLite says in a word."""
        try:
            yield
        except SQLITE_ERRORS as error:
            raise DataError(_sentence(error, self.path)) from None

    def undone(self, error: Exception) -> DataError:
        """What SQLite says in a word, in a sentence, for a transaction that was rolled back."""
        return DataError(f"{_sentence(error, self.path)}{UNDONE}")

    def damaged(self, why: str) -> DataError:
        """For a file that holds what no gallery wrote."""
        return DataError(f"{self.path} is damaged: {why}; restore it from a copy or an export")


_opened: "weakref.WeakSet[Database]" = weakref.WeakSet()
_opening = threading.Lock()


def _register(database: Database) -> None:
    """Look at the bytes of a file that is to be opened, unless this process has it open already.

    A process that closes a file loses all locks that it has on it, those of SQLite among them,
    whoever opened it. Another process could then take away the log that this one goes on writing.

    Raises `DataError` as `check_file` does.
    """
    with _opening:
        if not any(other.holds(database.path) for other in list(_opened)):
            check_file(database.path)
        _opened.add(database)


def create_database(path: Path, meta: Mapping[str, object]) -> None:
    """Make an empty gallery at `path`, whole or not at all; one that is there already stays.

    Raises `DataError` where it cannot be written.
    """
    part = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = _connect(f"{part.absolute().as_uri()}?mode=rwc")
        try:
            connection.execute(f"PRAGMA page_size = {page_size(int(str(meta['dim'])))}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN")
            for statement in CREATE:
                connection.execute(statement)
            connection.execute("INSERT INTO subjects VALUES (?, x'', 0)", (NOBODY,))
            connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        try:
            os.link(part, path)  # unlike a rename, never takes the place of another
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            if not path.exists():
                part.rename(path)
        _sync_folder(path.parent)
    except SQLITE_ERRORS as error:
        raise DataError(_sentence(error, path)) from None
    except OSError as error:
        raise DataError(f"{path} cannot be made: {error.strerror}") from None
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):  # the disk may refuse this, too, and then has nothing of it
                Path(f"{part}{end}").unlink(missing_ok=True)


def discard_new(path: Path) -> None:
    """Remove a gallery that was just made and could not be opened, unless somebody wrote to it."""
    if not log_size(path):
        for end in ("", "-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)


def _connect(address: str) -> sqlite3.Connection:
    return sqlite3.connect(
        address,
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,  # a gallery lets in one thread at a time
    )


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sentence(error: Exception, path: Path) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the finer distinctions
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return (
            f"{path} has been in use by another process for {PATIENCE:g} seconds: try again when"
            " that is done"
        )
    if code == sqlite3.SQLITE_FULL:
        return f"there is no room left on the disk for {path}"
    if code == sqlite3.SQLITE_IOERR:
        return f"{path} cannot be read or written ({error}): is the disk full?"
    if code == sqlite3.SQLITE_READONLY:
        return f"{path} cannot be written: the file or its folder is read-only"
    if code == sqlite3.SQLITE_CANTOPEN:
        return f"{path} cannot be opened ({error})"
    if code == sqlite3.SQLITE_TOOBIG:
        return f"an image is too large for {path}"
    return f"{path} is damaged ({one_line(error)}): restore it from a copy or an export"
