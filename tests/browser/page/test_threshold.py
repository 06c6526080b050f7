"""The third tab: the slider tells what the service's curves say, and Identify follows it.

Goes with the page of today, whose elements it asks for by name; test_tabs.py stays.
"""

import re

import pytest

from support.servers import pattern

pytestmark = pytest.mark.long

SLIDER = "#threshold-slider"


def sentence(page) -> str:
    return page.text_content("#threshold-body .sentence")


def told(share: float) -> str:
    """As the page says it, from ten upwards."""
    for parts in (10, 100, 1000):
        if share >= 0.95 / parts:
            return f"{min(round(share * parts), parts - 1)} in {parts:,}"
    return ""


@pytest.fixture
def page(open_page, site):
    opened = open_page(site, "threshold")
    opened.wait_for_selector("#threshold-body svg path")
    return opened


def put(page, value: float) -> None:
    page.locator(SLIDER).fill(str(value))


def test_it_begins_with_the_calibrated_threshold(page, site):
    found = site.get("/v1/threshold").json()
    assert sentence(page).startswith(f"At {found['working_point']['threshold']:.3f}".rstrip("0"))
    assert "This is the calibrated threshold, which is in use." in page.text_content(".facts")
    assert page.locator(".facts button").is_hidden()
    assert page.locator("svg .calibrated").count() == 1


def test_sentence_and_marks_follow_the_slider(page, site):
    curves = site.get("/v1/threshold").json()["curves"]
    assert curves["genuine"] >= 110
    known = [place for place, one in enumerate(curves["false_accept"]) if one is not None]
    for place in (known[len(known) // 3], known[2 * len(known) // 3]):
        value, accepted = curves["thresholds"][place], curves["false_accept"][place]
        put(page, value)
        text = sentence(page)
        assert re.match(rf"At {value:.2f}", text)
        if 0.01 < accepted < 0.99:
            assert told(accepted) in text
        assert page.locator("svg circle.accepts").count() == 1
        assert page.locator("svg circle.rejects").count() == 1
    put(page, 1)
    assert "fewer than" in sentence(page)
    assert curves["false_reject"][-1] == 1
    assert "no enrolled sample is recognized" in sentence(page)
    put(page, curves["thresholds"][0])
    assert curves["false_reject"][0] == 0
    assert "every enrolled sample is recognized" in sentence(page)


def test_keys_and_the_curves_themselves_move_it(page):
    put(page, 0.5)
    page.focus(SLIDER)
    page.keyboard.press("ArrowRight")
    assert "At 0.505" in sentence(page)
    box = page.locator("#threshold-body svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 80)
    page.mouse.up()
    value = float(page.input_value(SLIDER))
    assert 0.6 < value < 0.8
    page.wait_for_selector(f"[role=status]:has-text('{sentence(page)}')", state="attached")


def test_identify_follows_for_this_session_until_it_goes_back(page, people, site):
    known = pattern(people / "photos", "subject 05")
    put(page, 1)
    assert "in this session only" in page.text_content(".facts")
    page.click("#tab-identify")
    assert "set by you" in page.text_content("#identify-point")
    page.set_input_files("#identify-files", known)
    page.wait_for_selector(".answer.unknown")
    page.reload()
    page.wait_for_selector("#identify-point >> text=set by you")
    page.click("#identify-point >> text=Use the calibrated threshold")
    page.set_input_files("#identify-files", known)
    page.wait_for_selector(".answer.known")
    threshold = site.get("/v1/threshold").json()["working_point"]["threshold"]
    assert f"{threshold:.3f}" in page.text_content("#identify-point")
