"""The page as a whole: quick, quiet, at every width, by keyboard, and offline.

Goes with the page of today, whose elements it asks for by name; test_tabs.py stays.
"""

import re

import pytest

pytestmark = pytest.mark.long

TABS = ("identify", "people", "threshold", "embedding")
READY = {
    "identify": "#identify-point strong",
    "people": "button.person",
    "threshold": "#threshold-body svg path",
    "embedding": ".panel > canvas",
}
LARGEST = """new Promise((done) => new PerformanceObserver(
    (list) => done(list.getEntries().at(-1).startTime)
).observe({type: "largest-contentful-paint", buffered: true}))"""
NAMELESS = """[...document.querySelectorAll("button, input, canvas[tabindex]")].filter((one) =>
    !(one.textContent.trim() || one.getAttribute("aria-label") || one.labels?.length)
).map((one) => one.outerHTML)"""


def test_its_largest_part_is_there_within_a_second(open_page, site):
    took = []
    for _ in range(3):  # other work on the machine may hold up one or two
        page = open_page(site)
        page.wait_for_selector(READY["identify"])
        took.append(page.evaluate(LARGEST) / 1000)
        if took[-1] <= 1:
            break
    print(f"largest contentful paint after {took[-1]:.3f} s")
    assert min(took) <= 1


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1280, "light"),
        (360, "dark"),
        pytest.param(1280, "dark", marks=pytest.mark.long),
        pytest.param(360, "light", marks=pytest.mark.long),
    ],
)
def test_every_tab_fits_and_says_nothing_wrong(open_page, site, artefacts, width, scheme):
    page = open_page(site, size=(width, 800), color_scheme=scheme)
    grounds = set()
    for tab in TABS:
        page.click(f"#tab-{tab}")
        page.wait_for_selector(READY[tab])
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("window.scrollY") == 0
        assert page.evaluate(NAMELESS) == []
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.screenshot(path=artefacts / f"page-{tab}-{width}-{scheme}.png", full_page=True)
    (ground,) = grounds
    bright = sum(int(value) for value in re.findall(r"\d+", ground)[:3]) > 3 * 128
    assert bright == (scheme == "light")


def test_tabs_follow_the_arrow_keys_and_the_way_back(open_page, site):
    page = open_page(site)
    page.wait_for_selector(READY["identify"])
    page.focus("#tab-identify")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#people:not([hidden])")
    assert page.evaluate("document.activeElement.id") == "tab-people"
    assert page.get_attribute("#tab-people", "aria-selected") == "true"
    assert page.get_attribute("#tab-identify", "aria-selected") == "false"
    page.keyboard.press("End")
    page.wait_for_selector("#embedding:not([hidden])")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#identify:not([hidden])")
    page.go_back()
    page.wait_for_selector("#embedding:not([hidden])")
    assert page.title() == "Embedding · arcset"
    assert page.locator("[role=tab][tabindex='0']").count() == 1


def test_everything_can_be_reached_by_tab_and_shows_where_one_is(open_page, site):
    page = open_page(site)
    page.wait_for_selector(READY["identify"])
    seen = []
    for _ in range(4):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert seen[0] == "skip"
    assert seen[1:3] == ["tab-identify", "identify-files"]
    page.focus("#tab-identify")
    page.keyboard.press("Tab")
    ring = "getComputedStyle(document.querySelector('.button:has(#identify-files)')).outlineStyle"
    assert page.evaluate(ring) == "solid"


def test_a_server_that_is_gone_is_said(open_page, site):
    page = open_page(site, refused=True)
    page.wait_for_selector(READY["identify"])
    page.context.set_offline(True)
    for tab, words in (
        ("people", "The list could not be loaded"),
        ("threshold", "The curves could not be loaded"),
        ("embedding", "The runs could not be loaded"),
    ):
        page.click(f"#tab-{tab}")
        page.wait_for_selector(f"#{tab} >> text={words}")
    page.click("#tab-identify")
    file = {"name": "a.png", "mimeType": "image/png", "buffer": b"none"}
    page.set_input_files("#identify-files", file)
    page.wait_for_selector(".answer.failed >> text=The server cannot be reached")
    page.context.set_offline(False)
    page.click("#tab-embedding")
    page.wait_for_selector(READY["embedding"])  # asked for anew
