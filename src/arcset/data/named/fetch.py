"""Where datasets lie on this machine, and downloads that arrive whole or not at all."""

import gzip
import hashlib
import http.client
import io
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib import error as url_errors
from urllib import request
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from arcset.errors import DataError, OptionError
from arcset.files import replacing

__all__ = ["GZIP_MAGIC", "LocalFolder", "cache_folder", "data_folders", "download", "find_file"]

GZIP_MAGIC = b"\x1f\x8b"

_CHUNK = 1 << 17


def cache_folder() -> Path:
    """Where downloads are kept: `$XDG_CACHE_HOME/arcset`, or `~/.cache/arcset`."""
    home = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification says that a relative path there is to be ignored.
    base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".cache"
    return base / "arcset"


def data_folders(name: str) -> tuple[Path, ...]:
    """Where the dataset `name` is looked for, in this order: `$ARCSET_DATA/name`, the cache."""
    cached = cache_folder() / name
    given = os.environ.get("ARCSET_DATA")
    return (Path(given) / name, cached) if given else (cached,)


def find_file(dataset: str, *names: str) -> Path | None:
    """The first file of one of these names in the folders of a dataset; None if there is none."""
    paths = (folder / name for folder in data_folders(dataset) for name in names)
    return next((path for path in paths if path.exists()), None)


@dataclass(frozen=True)
class LocalFolder:
    """Where a dataset of the user's own copying is, or would have to be.

    name: of the dataset. layout: how its files are called below the folder, for messages.
    """

    name: str
    layout: str

    def find(self) -> Path:
        """The first of the folders that is there; raises `DataError` where none is."""
        found = self._first()
        if found is None:
            raise DataError(
                f"{self.name} is not on this machine and cannot be downloaded in this form: "
                f"put its files ({self.layout}) into {self._candidates()}"
            )
        return found

    def locate(self) -> str:
        """The folder, or where it would have to be."""
        found = self._first()
        if found is None:
            return f"not here: put {self.layout} into {self._candidates()}"
        return str(found)

    def download(self) -> str:
        """Says where the folder is; raises `DataError` as `find` does."""
        return str(self.find())

    def _first(self) -> Path | None:
        return next((folder for folder in data_folders(self.name) if folder.is_dir()), None)

    def _candidates(self) -> str:
        return " or ".join(str(folder) for folder in data_folders(self.name))


class _MirrorError(Exception):
    """This mirror did not deliver; the next one may."""


def download(
    urls: Sequence[str],
    destination: Path,
    *,
    sha256: str | None,
    check: Callable[[Path], None] | None = None,
    unpack: bool = True,
    timeout: float = 30.0,
) -> Path:
    """Fetch one file from the first of `urls` that delivers it; returns `destination`.

    urls: http or https addresses of the same file, tried in this order.
    sha256: checksum, in hex, of the bytes that end up in `destination`; None where `check` judges.
    check: called with the file before it takes its place; a `DataError` from it refuses the file.
    unpack: whether a gzipped body (its first bytes tell) is stored uncompressed.
    timeout: how many seconds the other side may be silent.

    A progress bar runs on standard error. The bytes go to a file beside `destination`, which takes
    its place once the checks are passed; on any failure, Ctrl-C included, nothing is left behind.
    Raises `DataError` that names each address and what was wrong with it, and `OptionError` for an
    address of another kind.
    """
    if not urls:
        raise OptionError(f"no address was given to download {destination.name} from")
    for url in urls:
        if urlsplit(url).scheme not in {"http", "https"}:
            raise OptionError(f"cannot download from {url!r}: only http and https are spoken here")
    failures = []
    for url in urls:
        try:
            with replacing(destination) as part:
                _fetch(url, part, destination.name, sha256, unpack, timeout)
                if check is not None:
                    _check(check, part)
        except _MirrorError as failure:
            failures.append(f"{url} ({failure})")
        except OSError as error:  # those of the network are caught where it is read
            raise DataError(
                f"cannot write {destination}: {error.strerror or error}; "
                "free some space there or choose another folder with XDG_CACHE_HOME"
            ) from error
        else:
            return destination
    raise DataError(
        f"cannot download {destination.name} from {', nor from '.join(failures)}; "
        f"check the connection and try again, or put the file into {destination.parent} yourself"
    )


def _check(check: Callable[[Path], None], part: Path) -> None:
    try:
        check(part)
    except DataError as error:
        # The temporary name in front says nothing to anybody.
        raise _MirrorError(str(error).replace(str(part), "what it sent")) from error


def _fetch(
    url: str, part: Path, name: str, sha256: str | None, unpack: bool, timeout: float
) -> None:
    """Write what `url` delivers to `part`; raises `_MirrorError` unless the checksum fits."""
    digest = hashlib.sha256()
    with _open(url, timeout) as response, part.open("wb") as file, _progress() as progress:
        body = _Body(response, progress, name)
        buffered = io.BufferedReader(body, _CHUNK)
        packed = unpack and buffered.peek(2).startswith(GZIP_MAGIC)
        stream: _Readable = gzip.GzipFile(fileobj=buffered) if packed else buffered
        while chunk := _read(stream):
            digest.update(chunk)
            file.write(chunk)
    if sha256 is not None and digest.hexdigest() != sha256:
        raise _MirrorError(f"its sha256 is {digest.hexdigest()}, and should be {sha256}")


def _open(url: str, timeout: float) -> http.client.HTTPResponse:
    # An opener of these parts alone: the default one would follow a redirect to ftp.
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPRedirectHandler,
        request.HTTPErrorProcessor,
        request.UnknownHandler,
    ):
        opener.add_handler(handler())
    try:
        response = opener.open(
            request.Request(url, headers={"User-Agent": "arcset"}), timeout=timeout
        )
    except url_errors.HTTPError as error:
        with error:  # it is the response, too, and holds the connection open
            raise _MirrorError(f"HTTP {error.code} {error.reason}") from error
    except url_errors.URLError as error:
        raise _MirrorError(str(error.reason)) from error
    except (OSError, http.client.HTTPException) as error:
        raise _MirrorError(_words(error)) from error
    assert isinstance(response, http.client.HTTPResponse)
    return response


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _read(stream: _Readable) -> bytes:
    try:
        return stream.read(_CHUNK)
    except EOFError as error:
        raise _MirrorError("its gzip stream breaks off") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _MirrorError(f"damaged gzip stream: {error}") from error


class _Body(io.RawIOBase):
    """The bytes of a response: counted, shown in the bar, and complete or an error."""

    def __init__(self, response: http.client.HTTPResponse, progress: Progress, name: str) -> None:
        self._response = response
        self._expected = response.length  # None where the server does not say
        self._received = 0
        self._progress = progress
        self._task = progress.add_task(name, total=self._expected)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            count = self._response.readinto(buffer)
        except (OSError, http.client.HTTPException) as error:
            raise _MirrorError(
                f"broke off after {self._received} bytes: {_words(error)}"
            ) from error
        self._received += count
        self._progress.update(self._task, completed=self._received)
        # http.client takes a connection that closes early for the end of the body.
        if count == 0 and self._expected is not None and self._received < self._expected:
            raise _MirrorError(f"broke off after {self._received} of {self._expected} bytes")
        return count


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
