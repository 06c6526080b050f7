"""A gallery behind keys: what is asked for, what a reading key hides, and a gallery that begins.

Goes with the page of today, whose elements it asks for by name; test_tabs.py stays.
"""

from pathlib import Path

import pytest

from support.servers import pattern

pytestmark = pytest.mark.long


def enter(page, key: str) -> None:
    page.wait_for_selector("#key-dialog[open]")
    page.fill("#key-input", key)
    page.keyboard.press("Enter")


def test_a_key_is_asked_for_until_one_is_right_and_kept_in_the_tab(open_page, locked, keys):
    page = open_page(locked, refused=True)
    page.wait_for_selector("#key-dialog[open]")
    assert page.evaluate("document.activeElement.id") == "key-input"
    assert page.get_attribute("#key-input", "type") == "password"
    page.keyboard.press("Escape")
    enter(page, "arcset_wrong")
    page.wait_for_selector("#key-error:not([hidden])")
    enter(page, keys["read"])
    page.wait_for_selector("#gallery-line:has-text('1 subject')")
    assert page.locator("#key-dialog[open]").count() == 0
    page.reload()
    page.wait_for_selector("#gallery-line:has-text('1 subject')")
    assert page.locator("#key-dialog[open]").count() == 0
    stored = page.evaluate("[Object.values(sessionStorage), localStorage.length, document.cookie]")
    assert stored == [[keys["read"]], 0, ""]
    page.click("text=Change key")
    enter(page, keys["write"])
    page.wait_for_selector(
        "#gallery-line:not(:has-text('your key is read-only')):has-text('1 subject')"
    )


def test_a_key_for_reading_shows_nothing_that_writes(open_page, locked, keys):
    page = open_page(locked, "people", refused=True)
    enter(page, keys["read"])
    page.wait_for_selector("button.person:not(.waiting)")
    assert "your key is read-only" in page.text_content("#gallery-line")
    assert page.locator("#enroll-open").is_hidden()
    assert "It stores embeddings, not images" in page.text_content("#people-lead")
    page.click("button.person")
    page.wait_for_selector("dialog .samples li")
    assert page.text_content("dialog .samples .face") == "image not stored"
    assert page.locator("dialog[open] button").all_text_contents() == ["×"]
    page.keyboard.press("Escape")
    page.click("#tab-embedding")
    page.wait_for_selector("text=There are no runs to show")


def test_without_a_calibration_one_chooses_the_threshold(open_page, locked, keys):
    known = pattern(Path(keys["gallery"]).parent / "photos", "somebody")
    page = open_page(locked, refused=True)
    enter(page, keys["write"])
    page.wait_for_selector("#gallery-line:has-text('1 subject')")
    page.set_input_files("#identify-files", known)
    page.click(".answer.failed button")
    page.wait_for_selector("#threshold-body svg")
    assert "is not known" in page.text_content(".sentence")
    assert "calibrate" in page.text_content("#threshold-body .notice")
    page.locator("#threshold-slider").fill("0.5")
    page.click("#tab-identify")
    page.set_input_files("#identify-files", known)
    page.wait_for_selector(".answer.known")
    assert page.text_content(".answer.known .verdict") == "This is somebody."
    assert page.text_content(".answer.known .chance").startswith("Similarity 0.")


@pytest.mark.parametrize("tab", ["people", "threshold", "embedding"])
def test_every_tab_waits_for_the_key(open_page, locked, keys, tab):
    page = open_page(locked, tab, refused=True)
    enter(page, keys["read"])
    ready = {"people": ".person:not(.waiting)", "threshold": "svg path", "embedding": ".state"}
    page.wait_for_selector(f"#{tab} {ready[tab]}", state="attached")


def test_an_empty_gallery_says_how_it_begins(open_page, locked, keys):
    locked.key = keys["write"]
    try:
        known = locked.get("/v1/subjects/somebody").status == 200
        if known:
            assert locked.request("DELETE", "/v1/subjects/somebody").status == 200
        page = open_page(locked, refused=True)
        enter(page, keys["write"])
        page.wait_for_selector("#answers >> text=Nobody is enrolled yet")
        page.click("#tab-people")
        page.click("#people-empty >> text=Enroll a person")
        page.fill("dialog[open] input[type=text]", "somebody")
        folder = Path(keys["gallery"]).parent / "photos"
        page.set_input_files("dialog[open] input[type=file]", pattern(folder, "somebody", 0))
        page.keyboard.press("Enter")
        page.wait_for_selector(".person >> text=somebody")
        page.click("#tab-identify")
        page.wait_for_selector("#answers >> text=Nobody is enrolled yet", state="detached")
    finally:
        locked.key = None
