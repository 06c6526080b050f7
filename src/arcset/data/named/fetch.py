"""Where datasets lie on this machine, and downloads that arrive whole or not at all."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from arcset.errors import DataError
from arcset.files import replacing

__all__ = [
    "LocalFolder",
    "cache_folder",
    "data_folders",
    "download",
    "find_file",
    "find_or_download",
]

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


def find_or_download(
    dataset: str, name: str, mirrors: Sequence[str], check: Callable[[Path], object]
) -> Path:
    """The file `name` of a dataset, downloaded into the cache if it is not on this machine.

    mirrors: addresses of folders, tried in this order. check: see `download`. NAME.gz may also be
    here uncompressed. A file that is here is never replaced, whatever it holds.
    """
    return find_file(dataset, name.removesuffix(".gz"), name) or download(
        [f"{mirror.rstrip('/')}/{name}" for mirror in mirrors],
        cache_folder() / dataset / name,
        check=check,
    )


@dataclass(frozen=True)
class LocalFolder:
    """Where a dataset of the user's own copying is, or would have to be.

    name: of the dataset. layout: how its files are called below the folder, for messages.
    """

    name: str
    layout: str

    def find(self) -> Path:
        """The first of the folders that is there; raises `DataError` where none is."""
        folder = self._first()
        if folder is None:
            raise DataError(
                f"{self.name} is not on this machine and cannot be downloaded in this form: "
                f"put its files ({self.layout}) into {self._candidates()}"
            )
        return folder

    def locate(self) -> str:
        """The folder, or where it would have to be."""
        folder = self._first()
        if folder is None:
            return f"not here: put {self.layout} into {self._candidates()}"
        return str(folder)

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
    sha256: str | None = None,
    check: Callable[[Path], object] | None = None,
    timeout: float = 30.0,
) -> Path:
    """Fetch one file from the first of `urls` that delivers it; returns `destination`.

    urls: addresses of the same file, tried in this order.
    sha256: checksum of the file, in hex; None where `check` judges.
    check: called with the file before it takes its place; a `DataError` from it refuses the file.
    timeout: how many seconds the other side may be silent.

    A progress bar runs on standard error. The bytes go to a file beside `destination`, which takes
    its place once the checks are passed; on any failure, Ctrl-C included, nothing is left behind.
    Raises `DataError` that names each address and what was wrong with it.
    """
    failures = []
    for url in urls:
        try:
            with replacing(destination) as part:
                _fetch(url, part, destination.name, sha256, timeout)
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


def _check(check: Callable[[Path], object], part: Path) -> None:
    try:
        check(part)
    except DataError as error:
        # The temporary name in front tells the user nothing.
        raise _MirrorError(str(error).replace(str(part), "what it sent")) from error


def _fetch(url: str, part: Path, name: str, sha256: str | None, timeout: float) -> None:
    """Write what `url` delivers to `part`; raises `_MirrorError` unless the checksum fits."""
    digest = hashlib.sha256()
    with part.open("wb") as file:
        for chunk in _receive(url, name, timeout):
            digest.update(chunk)
            file.write(chunk)
    if sha256 is not None and digest.hexdigest() != sha256:
        raise _MirrorError(f"its sha256 is {digest.hexdigest()}, and should be {sha256}")


def _receive(url: str, name: str, timeout: float) -> Iterator[bytes]:
    """The body that `url` answers with, piece by piece, under a progress bar; or `_MirrorError`."""
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    progress = Progress(TextColumn("{task.description}"), *columns, console=Console(stderr=True))
    request = Request(url, headers={"User-Agent": "arcset"})
    try:
        with urlopen(request, timeout=timeout) as response, progress:
            task = progress.add_task(name, total=response.length)
            while chunk := response.read(_CHUNK):
                progress.advance(task, len(chunk))
                yield chunk
            # http.client takes a connection that closes early for the end of the body.
            if response.length:
                raise _MirrorError(f"broke off {response.length} bytes before its end")
    except (OSError, HTTPException) as error:
        raise _MirrorError(str(error) or type(error).__name__) from error
