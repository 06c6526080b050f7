"""Every report in a real browser, as the command line writes it: alone, offline, at any width.

Names that are HTML stay text: were they not, a dialog would open.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from support.patterns import pictures
from support.random_runs import random_run
from support.servers import typed

HOSTILE = "<img src=x onerror=alert(1)> &amp; 'q'"


@pytest.fixture
def open_report(open_address: Callable[..., Any]) -> Callable[[Path], Any]:
    """Open a file offline, on a phone in the dark and then wide, where it stays."""

    def opened(path: Path) -> Any:
        page = open_address(path.as_uri(), size=(360, 800), offline=True, color_scheme="dark")
        for width, scheme in ((360, "dark"), (1280, "light")):
            page.set_viewport_size({"width": width, "height": 850})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, ground[4:-1].split(","))) > 3 * 128) == (scheme == "light")
        assert page.evaluate(
            "[...document.images].every(i => i.complete && i.naturalWidth && i.alt)"
        )
        return page

    return opened


def pixels(picture: Any) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture.screenshot())).convert("RGB"), np.int16)


def test_the_report_of_runs_is_looked_around_in(
    open_report: Callable[[Path], Any], tmp_path: Path
) -> None:
    typed(
        *("train", "mnist-sample", "--classes", "0-2", "--network", "mlp", "--dim", 3),
        *("--epochs", 2, "--batch", 256, "--set", "snapshot=40", "--device", "cpu"),
        *("--out", tmp_path / HOSTILE),
    )
    page = open_report(tmp_path / HOSTILE / "report.html")
    sphere = page.locator("canvas").and_(page.get_by_role("img", name=f"of {HOSTILE}"))
    slider = page.get_by_role("slider", name="Epoch")
    assert slider.input_value() == "2"
    last = pixels(sphere)
    slider.fill("0")
    assert (pixels(sphere) != last).any()
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_role("button", name="Play").wait_for()
    assert slider.input_value() == "2"

    before = pixels(sphere)
    sphere.press("ArrowRight")
    assert (pixels(sphere) != before).any()
    sphere.press("n")  # the next point: its class and its angles, beside its image
    told = page.get_by_role("status").inner_text()
    assert told[0] in "0123456789"
    assert "°" in told
    sphere.press("Escape")
    assert page.get_by_role("status").count() == 0
    before = pixels(sphere)
    page.get_by_role("group", name="Classes").get_by_role("button").nth(1).click()
    assert (pixels(sphere) != before).any()
    assert not page.get_by_role("group", name="Runs").count(), "of one run there is no choice"


def test_the_report_of_an_evaluation(open_report: Callable[[Path], Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(25), 4)
    means = rng.normal(size=(25, 8))[labels]
    for name, noise in ((HOSTILE, 0.3), ("poor", 1.0)):
        rows = means + noise * rng.normal(size=means.shape)
        np.savez(tmp_path / f"{name}.npz", embeddings=rows, labels=labels)
    files = [tmp_path / f"{HOSTILE}.npz", "--against", tmp_path / "poor.npz"]
    typed("evaluate", *files, "--out", tmp_path / "judged")
    page = open_report(tmp_path / "judged" / "report.html")
    for name in (HOSTILE, "poor"):
        assert page.get_by_role("columnheader", name=name).count()
    drawn = list((tmp_path / "judged" / "pictures").iterdir())
    assert page.locator("img").count() == len(drawn) >= 6


def test_the_page_of_groups(open_report: Callable[[Path], Any], tmp_path: Path) -> None:
    random_run(tmp_path / "run", dim=32)
    names = [HOSTILE, "a rather long name", "another"]
    first, *_ = pictures(tmp_path / "photos", names, 4)
    first.rename(first.with_stem(HOSTILE))
    typed(
        *("cluster", tmp_path / "photos", "--model", tmp_path / "run", "--threshold", 0.9),
        *("--device", "cpu", "--out", tmp_path / "groups"),
    )
    page = open_report(tmp_path / "groups" / "groups.html")
    shown = page.get_by_role("listitem").get_by_role("img")
    assert shown.count() == 12
    for name in names:
        assert page.get_by_text(name).count()
