"""A real browser for the pages; where none is found, these tests are skipped and say so."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


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


@pytest.fixture
def open_address(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open an address; afterwards no error may have been said, and nothing asked of others.

    A browser says by itself that an answer was no success: `refused` allows for that.
    """
    contexts, problems, asked, known = [], [], [], set()

    def opened(
        address: str, size: tuple[int, int] = (1280, 820), refused: bool = False, **options: Any
    ) -> Any:
        def said(message: Any) -> None:
            if not (refused and message.text.startswith("Failed to load resource")):
                problems.append(message.text)

        viewport = {"width": size[0], "height": size[1]}
        context = browser.new_context(viewport=viewport, **options)
        context.set_default_timeout(15_000)
        contexts.append(context)
        parts = urlsplit(address)
        known.add(f"{parts.scheme}://{parts.netloc}/" if parts.netloc else address)
        context.on("request", lambda request: asked.append(request.url))
        page = context.new_page()
        page.on("console", said)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"a dialog: {dialog.message}"))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not problems
    own = (*known, "blob:", "data:")  # the last two are made by the page itself
    assert not [address for address in asked if not address.startswith(own)]


@pytest.fixture
def artefacts(tmp_path: Path) -> Path:
    """Where screenshots go: $ARCSET_ARTEFACTS, or the test's own temporary folder."""
    place = Path(os.environ.get("ARCSET_ARTEFACTS") or tmp_path)
    place.mkdir(parents=True, exist_ok=True)
    return place
