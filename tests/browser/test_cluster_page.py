"""The page of groups in a real browser: alone, at every width, light and dark."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arcset.reports.cluster_report import Member, write_cluster_report


@pytest.fixture(scope="module")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)

    def member(name: str, label: str) -> Member:
        return Member(name, label, lambda: rng.integers(0, 256, (112, 112, 3), np.uint8))

    groups = []
    for number, size in enumerate((24, 5, 3, 2), 1):
        who = f"a/person with a rather long name {number}"
        groups.append([member(f"{who}/{row:04d}.jpg", who) for row in range(size)])
    groups[1][-1] = member("x/another/0001.jpg", "x/another")
    groups += [[member(f"alone/{row}.jpg", f"who{row}")] for row in range(7)]
    place = tmp_path_factory.mktemp("sheet") / "groups.html"
    write_cluster_report(
        place,
        groups,
        title="Who is who in " + "x" * 60,
        lead=["41 images: 34 in 4 groups, 7 alone", "threshold 0.4270"],
        command="arcset cluster photos " + "--option value " * 20,
    )
    return place


@pytest.mark.long  # test_reports.py has one that the command line wrote
@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (768, "dark"), (1440, "light")])
def test_it_fits_and_shows_every_picture(
    open_address: Any, sheet: Path, artefacts: Path, width: int, scheme: str
) -> None:
    page = open_address(sheet.as_uri(), size=(width, 900), offline=True, color_scheme=scheme)
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.screenshot(path=artefacts / f"cluster-{width}-{scheme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("li img").count() == 41
    assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth == 112)")
    assert page.locator("li.odd").count() == 1
    outline = page.locator("li.odd img").evaluate("i => getComputedStyle(i).outlineStyle")
    assert outline == "solid"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 200) == (scheme == "dark")
