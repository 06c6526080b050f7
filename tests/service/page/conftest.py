"""A real server and a real browser for the page; where no browser is found, tests are skipped."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from arcset.runs import RunConfig
from arcset.service.keys import Keys, keys_file
from arcset.training import train
from support.servers import Server, served, small_gallery

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync")
NAMES = [f"subject {number:02d}" for number in range(55)]  # more than one page of them


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium: $CHROMIUM, the one on the path, or Debian's place."""
    candidates = (os.environ.get("CHROMIUM"), shutil.which("chromium"), "/usr/bin/chromium")
    place = next((found for found in candidates if found and Path(found).is_file()), None)
    if place is None:
        pytest.skip("no Chromium found: install one, or name it in $CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=place, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of five runs to look at, two of them trained, and one that cannot be pictured."""
    place = tmp_path_factory.mktemp("runs")
    for loss, dim in (("softmax", 2), ("arcface", 3)):
        config = RunConfig(
            data="mnist-sample",
            classes="0-2",
            loss=loss,
            network="mlp",
            dim=dim,
            epochs=2,
            batch=256,
            snapshot=40,
        )
        train(config, place / f"{loss}-{dim}", device="cpu")
    for number in range(3):
        shutil.copytree(place / "arcface-3", place / f"again-{number}")
    (place / "wide").mkdir()
    text = (place / "arcface-3" / "config.toml").read_text().replace("dim = 3", "dim = 64")
    (place / "wide" / "config.toml").write_text(text)
    return place


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the gallery that `site` serves."""
    place = tmp_path_factory.mktemp("people")
    small_gallery(place, NAMES)
    return place


@pytest.fixture(scope="session")
def site(people: Path, runs: Path, browser: Any) -> Iterator[Server]:
    """55 subjects with images, a calibration and runs, without keys."""
    with served(people / "people.db", "--runs", runs, "--no-log") as server:
        yield server


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the gallery of `locked` is, and keys for it."""
    place = tmp_path_factory.mktemp("locked")
    gallery = small_gallery(place, ["somebody"], 1, keep_images=False, calibrated=False)
    made = Keys(keys_file(gallery))
    found = {role: made.add(role)[1] for role in ("read", "write")}
    return {"gallery": str(gallery), **found}


@pytest.fixture(scope="session")
def locked(keys: dict[str, str], browser: Any) -> Iterator[Server]:
    """One subject, no images, no calibration, no runs; with keys."""
    with served(Path(keys["gallery"]), "--no-log") as server:
        yield server


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open the page of a server; afterwards no error may have been said, nothing asked elsewhere.

    A browser says by itself that an answer was no success: `refused` allows for that.
    """
    contexts, problems, addresses, origins = [], [], [], set()

    def opened(
        server: Server,
        tab: str = "",
        size: tuple[int, int] = (1280, 820),
        refused: bool = False,
        **options: Any,
    ) -> Any:
        def said(message: Any) -> None:
            if not (refused and message.text.startswith("Failed to load resource")):
                problems.append(message.text)

        viewport = {"width": size[0], "height": size[1]}
        context = browser.new_context(viewport=viewport, **options)
        context.set_default_timeout(15_000)
        contexts.append(context)
        origins.add(server.url)
        context.on("request", lambda asked: addresses.append(asked.url))
        page = context.new_page()
        page.on("console", said)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"a dialog: {dialog.message}"))
        page.goto(f"{server.url}/#/{tab}" if tab else server.url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not problems
    outside = [
        address
        for address in addresses
        if not address.startswith((*origins, "blob:", "data:"))  # made by the page itself
    ]
    assert not outside


@pytest.fixture
def artefacts(tmp_path: Path) -> Path:
    """Where screenshots go: $ARCSET_ARTEFACTS, or the test's own temporary folder."""
    place = Path(os.environ.get("ARCSET_ARTEFACTS") or tmp_path)
    place.mkdir(parents=True, exist_ok=True)
    return place
