"""A real browser for the pages; where none is found, these tests are skipped and say so."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

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


def chromium() -> str | None:
    """$CHROMIUM, the one on the path, or Debian's place."""
    candidates = (os.environ.get("CHROMIUM"), shutil.which("chromium"), "/usr/bin/chromium")
    return next((found for found in candidates if found and Path(found).is_file()), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """Headless Chromium, once for all tests of a worker."""
    place = chromium()
    if place is None:
        pytest.skip("no Chromium found: install one, or name it in $CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=place, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def artefacts(tmp_path: Path) -> Path:
    """Where screenshots go: $ARCSET_ARTEFACTS, or the test's own temporary folder."""
    place = Path(os.environ.get("ARCSET_ARTEFACTS") or tmp_path)
    place.mkdir(parents=True, exist_ok=True)
    return place
