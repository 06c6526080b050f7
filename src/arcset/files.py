"""Writing files so that nothing half-written is ever found under the final name."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replacing", "write_bytes", "write_text"]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is synced and takes `path`'s place.

    If the block raises, the temporary file goes and whatever stood at `path` stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))  # the umask applies
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path`, or leave `path` as it was."""
    with replacing(path) as part:
        part.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write `content` to `path` as UTF-8, or leave `path` as it was."""
    write_bytes(path, content.encode())
