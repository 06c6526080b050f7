"""Where the files of datasets are on this machine; downloads that arrive whole or not at all."""

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

from rich.console import Console
from rich.progress import wrap_file

from arcset.data.named.registry import DatasetEntry
from arcset.errors import DataError
from arcset.files import cache_folder, replacing


def data_folders(name: str) -> tuple[Path, ...]:
    """Where the dataset `name` is looked for, in this order: `$ARCSET_DATA/name`, the cache."""
    cached = cache_folder() / name
    given = os.environ.get("ARCSET_DATA")
    return (Path(given) / name, cached) if given else (cached,)


@dataclass(frozen=True, kw_only=True)
class LocalFolder(DatasetEntry):
    """A dataset that its users copy to this machine themselves.

    layout: how its files are called below the folder, for messages.
    """

    layout: str

    def find(self) -> Path:
        """The first of the folders that is there; raises `DataError` where none is."""
        for folder in data_folders(self.name):
            if folder.is_dir():
                return folder
        raise DataError(
            f"{self.name} is not on this machine and cannot be downloaded in this form: "
            f"{self._instruction()}"
        )

    def locate(self) -> str:
        try:
            return self.download()
        except DataError:
            return f"not here: {self._instruction()}"

    def download(self) -> str:
        return str(self.find())

    def _instruction(self) -> str:
        return f"put {self.layout} into {' or '.join(map(str, data_folders(self.name)))}"


@dataclass(frozen=True, kw_only=True)
class PublicFiles(DatasetEntry):
    """A dataset of public files: found on this machine, or fetched into the cache.

    mirrors: addresses of folders, tried in this order. Each file is looked for by itself; NAME.gz
    may also be here uncompressed. What is here is never replaced.
    """

    mirrors: tuple[str, ...]

    @property
    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """The names of those that the dataset cannot do without."""

    @abstractmethod
    def check(self, file: str, path: Path) -> None:
        """Raise `DataError` where what lies at `path` is not the file of that name."""

    def find(self, file: str) -> Path | None:
        """Where a file is on this machine."""
        names = (file.removesuffix(".gz"), file)
        paths = (folder / name for folder in data_folders(self.name) for name in names)
        return next((path for path in paths if path.exists()), None)

    def fetch(self, file: str) -> Path:
        """Where a file is on this machine, after downloading it if it was not; `DataError`."""
        return self.find(file) or download(
            [f"{mirror.rstrip('/')}/{file}" for mirror in self.mirrors],
            cache_folder() / self.name / file,
            check=lambda path: self.check(file, path),
        )

    def download(self) -> str:
        for file in self.files:
            self.fetch(file)
        return self.locate()

    def locate(self) -> str:
        paths = [self.find(file) for file in self.files]
        folders = " and ".join(dict.fromkeys(str(path.parent) for path in paths if path))
        missing = paths.count(None)
        if not missing:
            return folders
        source = f"would be downloaded from {self.mirrors[0]}"
        if not folders:
            return f"not here: {source}"
        return f"{folders}, but {missing} of {len(paths)} files are missing: {source}"


def download(
    urls: Sequence[str],
    destination: Path,
    *,
    check: Callable[[Path], object],
    timeout: float = 30.0,
) -> Path:
    """Fetch one file from the first of `urls` that delivers it; returns `destination`.

    urls: addresses of the same file, tried in this order.
    check: called with the file before it takes its place; a `DataError` from it refuses the file.
    timeout: how many seconds the other side may be silent.

    A progress bar runs on standard error. The bytes go to a file beside `destination`, which takes
    its place once the check is passed; on any failure, Ctrl-C included, nothing is left behind.
    Raises `DataError` that names each address and what was wrong with it.
    """
    failures = []
    for url in urls:
        try:
            with replacing(destination) as part:
                with part.open("wb") as file:
                    file.writelines(_receive(url, destination.name, timeout))
                check(part)
        except DataError as error:
            said = str(error).replace(str(destination), "what it sent")
            failures.append(f"{url} ({said})")
        except OSError as error:  # not of the network: see _receive
            raise DataError(
                f"cannot write {destination}: {error.strerror or error}; "
                "choose another folder with XDG_CACHE_HOME"
            ) from error
        else:
            return destination
    raise DataError(
        f"cannot download {destination.name} from {', nor from '.join(failures)}; "
        f"check the connection and try again, or put the file into {destination.parent} yourself"
    )


def _receive(url: str, name: str, timeout: float) -> Iterator[bytes]:
    """What `url` answers with, piece by piece, under a progress bar; raises `DataError`."""
    request = Request(url, headers={"User-Agent": "arcset"})
    try:
        with urlopen(request, timeout=timeout) as response:
            console = Console(stderr=True)
            total = response.length or 0  # None where the server does not say
            with wrap_file(response, total, description=name, console=console) as body:
                while chunk := body.read(1 << 17):
                    yield chunk
            # http.client takes a connection that closes early for the end of the body.
            if response.length:
                raise DataError(f"broke off {response.length} bytes before its end")
    except (OSError, HTTPException) as error:
        raise DataError(str(error) or type(error).__name__) from error
