"""Servers whose page is looked at."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.servers import Server, added_key, served, small_gallery, typed

NAMES = [f"subject {number:02d}" for number in range(55)]  # more than one page of them
ROLES = ("read", "write")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of five runs to look at, two of them trained, and one that kept no epochs."""
    place = tmp_path_factory.mktemp("runs")
    for loss, dim in (("softmax", 2), ("arcface", 64)):
        typed(
            *("train", "mnist-sample", "--classes", "0-2", "--loss", loss, "--network", "mlp"),
            *("--dim", dim, "--epochs", 2, "--batch", 256, "--set", "snapshot=40"),
            *("--device", "cpu", "--no-report", "--out", place / f"{loss}-{dim}"),
        )
    for number in range(3):
        shutil.copytree(place / "arcface-64", place / f"again-{number}")
    (place / "empty").mkdir()
    shutil.copy(place / "arcface-64" / "config.toml", place / "empty")
    return place


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the gallery that `site` serves."""
    place = tmp_path_factory.mktemp("people")
    small_gallery(place, NAMES)
    return place


@pytest.fixture(scope="session")
def site(browser: Any, people: Path, runs: Path) -> Iterator[Server]:
    """55 subjects with images, a calibration and runs, without keys."""
    with served(people / "people.db", "--runs", runs, "--no-log") as server:
        yield server


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the gallery of `locked` is, and keys for it."""
    place = tmp_path_factory.mktemp("locked")
    gallery = small_gallery(place, ["somebody"], 1, keep_images=False, calibrated=False)
    return {"gallery": str(gallery), **{role: added_key(gallery, role) for role in ROLES}}


@pytest.fixture(scope="session")
def locked(browser: Any, keys: dict[str, str]) -> Iterator[Server]:
    """One subject, no images, no calibration, no runs; with keys."""
    with served(Path(keys["gallery"]), "--no-log") as server:
        yield server


@pytest.fixture
def open_page(open_address: Callable[..., Any]) -> Callable[..., Any]:
    """Open the page of a server at one of its tabs."""

    def opened(server: Server, tab: str = "", **options: Any) -> Any:
        return open_address(f"{server.url}/#/{tab}" if tab else server.url, **options)

    return opened
