"""Files: written whole or not at all; read so that a damaged one is one clear error."""

import errno
import hashlib
import json
import math
import os
import secrets
import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

from arcset.errors import ArcsetError, DataError

#: Does in one of several processes what it is given, while the others wait; see `on_main` in
#: `arcset.distributed`.
OnMain = Callable[[Callable[[], None]], None]


def cache_folder() -> Path:
    """Where downloads are kept: `$XDG_CACHE_HOME/arcset`, or `~/.cache/arcset`."""
    home = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification says that a relative path there is to be ignored.
    base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".cache"
    return base / "arcset"


@contextmanager
def replacing(path: Path, *, on_main: OnMain | None = None) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is synced and takes `path`'s place.

    If the block raises, the temporary file goes and whatever stood at `path` stays; the error names
    `path`, see `naming`. on_main: for several processes that write into the file together.
    """

    def create(part: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o666))  # the umask

    def complete(part: Path) -> None:
        sync(part)
        part.replace(path)

    def discard(part: Path) -> None:
        with suppress(OSError):  # the error that brought us here says more
            part.unlink(missing_ok=True)

    with _replacing(path, on_main, create, complete, discard) as part:
        yield part


@contextmanager
def replacing_folder(path: Path, *, on_main: OnMain | None = None) -> Iterator[Path]:
    """As `replacing`, for a folder: what stood at `path` goes when the new one is complete."""

    def create(part: Path) -> None:
        discard(part)
        part.mkdir(parents=True)

    def complete(part: Path) -> None:
        for file in part.rglob("*"):
            if file.is_file():
                sync(file)
        sync(part)
        old = part.with_suffix(".old")
        if path.exists():
            path.rename(old)
        try:
            part.rename(path)
        except OSError:
            if old.exists():
                old.rename(path)
            raise
        discard(old)
        sync(path.parent)

    def discard(part: Path) -> None:
        shutil.rmtree(part, ignore_errors=True)

    with _replacing(path, on_main, create, complete, discard) as part:
        yield part


@contextmanager
def _replacing(
    path: Path,
    on_main: OnMain | None,
    create: Callable[[Path], None],
    complete: Callable[[Path], None],
    discard: Callable[[Path], None],
) -> Iterator[Path]:
    token = "" if on_main else f".{secrets.token_hex(4)}"  # all of several use the same name
    part = path.parent / f".{path.name}{token}.part"
    stage = on_main or (lambda work: work())
    created = False

    def begin() -> None:
        nonlocal created
        create(part)
        created = True

    with naming(path, part):
        try:
            stage(begin)
            yield part
            stage(lambda: complete(part))
        finally:
            if created:
                discard(part)


def sync(path: Path) -> None:
    """Have a file's content, or the names in a folder, reach the disk, where the system can."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def naming(path: Path, part: Path) -> Iterator[None]:
    """Let errors about `part`, a temporary file or folder, name `path` instead.

    An `OSError` that names no file, as a failed write does, is taken to be about it.
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None and str(part) not in os.fsdecode(error.filename):
            raise
        why = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(error.errno or errno.EIO, why, str(path)) from None
    except ArcsetError as error:
        if str(part) in str(error):
            error.args = (str(error).replace(str(part), str(path)),)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path`, or leave `path` as it was."""
    with replacing(path) as part:
        part.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write `content` to `path` as UTF-8, or leave `path` as it was."""
    write_bytes(path, content.encode())


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal; raises `DataError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """As `json.loads`, but `ValueError` is all that it raises, whatever the text.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: it is nested too deeply
    """
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path, kind: str, model: Any, **hooks: Any) -> Any:
    """A JSON file as `model`, any type that pydantic reads; raises `DataError` that names the file.

    kind: what the file should be, as in "split". hooks: those of `json.loads`.
    """
    from pydantic import TypeAdapter, ValidationError

    with reading(path, kind):
        content = parse_json(path.read_text(encoding="utf-8"), **hooks)
        try:
            return TypeAdapter(model).validate_python(content)
        except ValidationError as error:
            raise DataError(f"{path} is not a readable {kind}: {wrong_entry(error)}") from None


def finite(content: Any) -> Any:
    """`content`, made of dicts and lists, with None for infinite values and NaN, as JSON needs it.

    >>> finite({"a": [1.0, float("inf")]})
    {'a': [1.0, None]}
    """
    if isinstance(content, dict):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def parse_toml(text: str) -> dict[str, Any]:
    """As `tomllib.loads`, but `ValueError` is all that it raises, whatever the text."""
    try:
        content = tomllib.loads(text)
        repr(content)  # dotted keys can nest deeper than messages could print
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return content


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a library raises at a damaged file into one `DataError` that names the file.

    For formats whose readers raise errors of a dozen types. kind: what the file should be, as in
    "npz file". Errors of arcset itself pass.
    """
    try:
        yield
    except ArcsetError:
        raise
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except Exception as error:
        raise DataError(f"{path} is not a readable {kind}: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """What an error of a library says, as part of a sentence."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def wrong_entry(error: "ValidationError") -> str:
    """Which entry of a JSON file does not fit the model that pydantic reads it as."""
    first = error.errors(include_url=False)[0]
    if "error" in first.get("ctx", {}):  # what a check of our own raised
        return str(first["ctx"]["error"])
    entry = ".".join(str(part) for part in first["loc"])
    return f"its entry {entry!r:.60} does not fit" if entry else "it is not a JSON object"
