"""Who may ask a service, and who may change something: keys, of which only digests are kept.

A key is `arcset_` and 32 random bytes. Nobody can guess 256 random bits, so that one SHA-256 hides
a key as well as a slow, salted hash would, which is for passwords that people make up.
"""

import hashlib
import hmac
import json
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from arcset.checks import check_choice
from arcset.errors import DataError, OptionError
from arcset.files import naming, read_json, replacing

PREFIX = "arcset_"
ROLES = ("read", "write")
_LONGEST_NAME = 100


@dataclass(frozen=True)
class Key:
    """One key, as it is kept.

    Fields:
        id: eight hexadecimal digits, to speak about it; not part of the key.
        name: who or what has it.
        role: read or write; the latter may do everything.
        created: when, in UTC.
        digest: SHA-256 of the key, hexadecimal.
    """

    id: str
    name: str
    role: Literal["read", "write"]
    created: str
    digest: str

    def json(self) -> dict[str, str]:
        """All that may be shown: everything but the digest."""
        return {name: value for name, value in asdict(self).items() if name != "digest"}


class _File(BaseModel):
    version: Literal[1]
    keys: tuple[Key, ...]


def keys_file(gallery: Path) -> Path:
    """Where the keys of a gallery are if nobody says otherwise: beside it.

    >>> keys_file(Path("people.db")).name
    'people.db.keys.json'
    """
    return gallery.with_name(gallery.name + ".keys.json")


class Keys:
    """The keys in a file, which may change while a service runs.

    path: the file; it need not exist. Threads may share one.

    Once there were keys, a file that is gone, empty or damaged lets nobody in.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._keys: tuple[Key, ...] = ()
        self._required = False
        self.all()

    def all(self) -> tuple[Key, ...]:
        """The keys as they are now; raises `DataError` where the file is damaged."""
        with self._lock:
            stamp = _stamp(self.path)
            if stamp != self._stamp:
                self._keys = ()  # nobody, where what follows fails
                self._keys = _read(self.path)
                self._stamp = stamp
                self._required = self._required or bool(self._keys)
            return self._keys

    @property
    def required(self) -> bool:
        """Whether a key is needed: there is one, or was since this object was made."""
        try:
            self.all()
        except DataError:
            return True
        return self._required

    def find(self, key: str) -> Key | None:
        """The stored key that this is, or None; a wrong one takes as long as a right one."""
        digest = _digest(key).encode()
        try:
            keys = self.all()
        except DataError:
            return None
        matching = [one for one in keys if hmac.compare_digest(one.digest.encode(), digest)]
        return matching[0] if matching else None

    def add(self, role: str = "read", name: str = "") -> tuple[Key, str]:
        """Create a key. Returns what is stored of it and the key itself, which is not stored.

        Raises `OptionError` for an unknown role or a long name.
        """
        check_choice("role", role, ROLES)
        if len(name) > _LONGEST_NAME or not name.isprintable():
            raise OptionError(f"a key's name has at most {_LONGEST_NAME} printable characters")
        secret = PREFIX + secrets.token_urlsafe(32)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        with self._changing() as keys:
            key = Key(secrets.token_hex(4), name, role, created, _digest(secret))  # type: ignore[arg-type]
            keys.append(key)
        return key, secret

    def remove(self, identity: str) -> Key:
        """Revoke the key with this id, or with this name if only one has it.

        Raises `OptionError` where there is none, or several.
        """
        with self._changing() as keys:
            found = [one for one in keys if one.id == identity]
            found = found or [one for one in keys if one.name == identity]
            if not found:
                raise OptionError(f"{self.path} has no key {identity!r}; see `arcset keys list`")
            if len(found) > 1:
                ids = ", ".join(one.id for one in found)
                raise OptionError(f"{len(found)} keys are named {identity!r}: remove one of {ids}")
            keys.remove(found[0])
        return found[0]

    @contextmanager
    def _changing(self) -> Iterator[list[Key]]:
        """One process at a time: the list to change, written when the block ends well."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = self.path.with_name(f".{self.path.name}.lock")
        with naming(self.path, lock), _locked(lock):
            keys = list(_read(self.path))
            yield keys
            text = json.dumps({"version": 1, "keys": [asdict(one) for one in keys]}, indent=2)
            with replacing(self.path) as part:
                part.chmod(0o600)  # before anything is in it
                part.write_text(text + "\n", encoding="utf-8")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            import fcntl
        except ImportError:  # not on every system
            yield
            return
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)  # noqa: PTH116 (asked for with every request)
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: Path) -> tuple[Key, ...]:
    if not path.exists():
        return ()
    keys: tuple[Key, ...] = read_json(path, "file of keys", _File).keys
    return keys
