"""The page's less frequent paths: every width and colour scheme, keys, failures, odd files.

Goes with the page of today, whose elements it asks for by name; test_tabs.py stays.
"""

import base64
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.patterns import calibrated_run, pictures
from support.servers import Server, pattern, served, typed

pytestmark = pytest.mark.long

TABS = ("identify", "people", "threshold", "embedding")
READY = {
    "identify": "#identify-point strong",
    "people": "button.person",
    "threshold": "#threshold-body svg path",
    "embedding": ".panel > canvas",
}
GIVE = """([where, kind, content, name, type]) => {
    const bytes = Uint8Array.from(atob(content), (one) => one.charCodeAt(0));
    const data = new DataTransfer();
    data.items.add(new File([bytes], name, {type}));
    const given = kind === "paste"
        ? new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true})
        : new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true});
    document.querySelector(where).dispatchEvent(given);
}"""


@pytest.fixture
def known(people: Path) -> Path:
    return pattern(people / "photos", "subject 07")


@pytest.fixture
def stranger(people: Path) -> Path:
    return pattern(people / "strangers", "nobody you know")


def exists(site: Server, name: str) -> bool:
    return site.get(f"/v1/subjects/{quote(name, safe='')}").status == 200


# The frame


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_every_tab_fits_and_says_nothing_wrong(
    open_page: Any, site: Server, artefacts: Path, width: int, scheme: str
) -> None:
    page = open_page(site, size=(width, 800), color_scheme=scheme)
    grounds = set()
    for tab in TABS:
        page.click(f".tabs [href='#/{tab}']")
        page.wait_for_selector(READY[tab])
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("window.scrollY") == 0
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.screenshot(path=artefacts / f"page-{tab}-{width}-{scheme}.png", full_page=True)
    (ground,) = grounds
    bright = sum(int(value) for value in re.findall(r"\d+", ground)[:3]) > 3 * 128
    assert bright == (scheme == "light")


def test_keys_reach_everything_and_the_way_back_is_kept(open_page: Any, site: Server) -> None:
    page = open_page(site)
    page.wait_for_selector(READY["identify"])
    focused = []
    for _ in range(6):
        page.keyboard.press("Tab")
        focused.append(page.evaluate("document.activeElement.id || document.activeElement.text"))
    names = ["Identify", "People", "Threshold", "Embedding"]
    assert focused == ["Skip to content", *names, "identify-files"]
    ring = "getComputedStyle(document.querySelector('.button:has(#identify-files)')).outlineStyle"
    assert page.evaluate(ring) == "solid"
    page.focus(".tabs [href='#/people']")
    page.keyboard.press("Enter")
    page.wait_for_selector("#people:not([hidden])")
    assert page.locator("[aria-current]").all_text_contents() == ["People"]
    page.click(".tabs [href='#/embedding']")
    page.wait_for_selector("#embedding:not([hidden])")
    page.click(".tabs [href='#/threshold']")
    page.go_back()
    page.wait_for_selector("#embedding:not([hidden])")
    assert page.title() == "Embedding · arcset"


def test_a_server_that_is_gone_is_said(open_page: Any, site: Server) -> None:
    page = open_page(site, refused=True)
    page.wait_for_selector(READY["identify"])
    page.context.set_offline(True)
    for tab, words in (
        ("people", "The list could not be loaded"),
        ("threshold", "The curves could not be loaded"),
        ("embedding", "The runs could not be loaded"),
    ):
        page.click(f".tabs [href='#/{tab}']")
        page.wait_for_selector(f"#{tab} >> text={words}")
    page.click(".tabs [href='#/identify']")
    file = {"name": "a.png", "mimeType": "image/png", "buffer": b"none"}
    page.set_input_files("#identify-files", file)
    page.wait_for_selector(".answer.failed >> text=The server cannot be reached")
    page.context.set_offline(False)
    page.click(".tabs [href='#/embedding']")
    page.wait_for_selector(READY["embedding"])  # asked for anew


# Identify


def test_a_rough_threshold_is_called_rough(browser: Any, open_page: Any, tmp_path: Path) -> None:
    run = calibrated_run(tmp_path / "run", identities=4)
    known = pictures(tmp_path / "photos", ["anna", "ben"], 2)[0]
    typed("enroll", tmp_path / "people.db", tmp_path / "photos", "--model", run, "--device", "cpu")
    with served(tmp_path / "people.db", "--no-log") as server:
        page = open_page(server)
        page.wait_for_selector("#identify-point >> text=a rough estimate")
        page.set_input_files("#identify-files", known)
        page.wait_for_selector(".answer.known")
        assert page.text_content(".verdict") == "This is anna."
        assert "rough threshold" in page.text_content(".scale-note")
        page.click(".tabs [href='#/threshold']")
        page.wait_for_selector(".facts >> text=a rough one, which is in use")
        assert "4 identities" in page.text_content("#threshold-body .notice")
        page.close()


def test_several_at_once_each_get_their_answer_in_their_order(
    open_page: Any, site: Server, people: Path, known: Path, stranger: Path, tmp_path: Path
) -> None:
    text = tmp_path / "letter.png"
    text.write_text("Dear Anna")
    others = [people / "photos" / f"subject {number:02d}" / "00.png" for number in range(9)]
    page = open_page(site)
    page.set_input_files("#identify-files", [known, text, stranger, *others])
    assert page.locator(".answer").count() == 12
    for position in range(12):
        page.locator(".answer").nth(position).locator(".verdict").wait_for()
    assert page.locator(".answer .verdict").all_text_contents() == [
        "This is subject 07.",
        "No answer for this image.",
        "No enrolled person matches.",
        *(f"This is subject {number:02d}." for number in range(9)),
    ]
    page.wait_for_selector("figcaption:has-text('enrolled: subject 07')")
    assert "This is subject 08." in page.text_content("#identify-said")


def test_images_are_dropped_and_pasted(
    open_page: Any, site: Server, known: Path, stranger: Path
) -> None:
    def give(where: str, kind: str, path: Path) -> None:
        content = base64.b64encode(path.read_bytes()).decode()
        page.evaluate(GIVE, [where, kind, content, path.name, "image/png"])

    page = open_page(site)
    give("#identify-drop", "drop", known)
    page.wait_for_selector(".answer.known")
    give("body", "paste", stranger)
    page.wait_for_selector(".answer.unknown")
    assert page.locator(".answer").count() == 2


# People


def test_a_taken_name_changes_nothing_and_the_last_sample_takes_its_subject_with_it(
    open_page: Any, site: Server, people: Path
) -> None:
    files = [("image", pattern(people / "more", "single", number)) for number in range(2)]
    assert site.form("/v1/subjects", ("name", "single"), *files).status == 201
    page = open_page(site, "people", refused=True)
    page.fill("#people-search", "single")
    page.wait_for_selector("#people-count:has-text('“single”')")
    page.click("button.person")
    page.fill("dialog[open] input[type=text]", "subject 03")
    page.click("text=Rename")
    page.wait_for_selector("dialog[open] .toast.bad")  # not behind it
    assert page.text_content("#person-title") == "single"
    page.click("dialog .samples li button")
    page.click("text=Cancel")
    assert page.locator("dialog .samples li").count() == 2
    page.click("dialog .samples li button")
    page.click(".small-dialog .danger")
    page.wait_for_selector("dialog .samples li >> nth=1", state="detached")
    page.click("dialog .samples li button")
    page.wait_for_selector(".small-dialog >> text=It is the only sample")
    page.click(".small-dialog .danger")
    page.wait_for_selector("dialog[open]", state="detached")
    assert not exists(site, "single")


def test_a_person_is_enrolled_and_what_is_missing_or_wrong_is_said(
    open_page: Any, site: Server, people: Path, tmp_path: Path
) -> None:
    files = [pattern(people / "more", "anna", number) for number in (1, 2, 3)]
    page = open_page(site, "people", refused=True)
    page.wait_for_selector(READY["people"])
    page.click("#enroll-open")
    assert page.evaluate("document.activeElement.placeholder") == "Anna Meyer"
    page.fill("dialog[open] input[type=text]", "Anna")
    page.click("dialog[open] button[type=submit]")
    page.wait_for_selector("dialog[open] >> text=Add at least one image.")
    page.set_input_files("dialog[open] input[type=file]", files[:2])
    page.set_input_files("dialog[open] input[type=file]", files[2])
    assert page.locator(".chosen img").count() == 3
    page.click(".chosen button >> nth=1")
    assert page.locator(".chosen img").count() == 2
    page.click("dialog[open] button[type=submit]")
    page.wait_for_selector(".toast:has-text('Anna was enrolled with 2 samples.')")
    assert site.get("/v1/subjects/Anna").json()["samples"] == 2

    page.click("#enroll-open")
    page.fill("dialog[open] input[type=text]", "Anna")
    page.set_input_files("dialog[open] input[type=file]", files[0])
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] >> text=Anna is already enrolled.")
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"nothing")
    page.fill("dialog[open] input[type=text]", "Berta")
    page.set_input_files("dialog[open] input[type=file]", broken)
    page.click("dialog[open] button[type=submit]")
    page.wait_for_selector("dialog[open] .error:not(:has-text('already'))")
    assert not exists(site, "Berta")


# Threshold


def test_sentence_and_marks_follow_the_slider_and_the_curves_themselves(
    open_page: Any, site: Server
) -> None:
    page = open_page(site, "threshold")
    page.wait_for_selector(READY["threshold"])
    curves = site.get("/v1/threshold").json()["curves"]

    def sentence(value: float) -> str:
        page.locator("#threshold-slider").fill(str(value))
        return str(page.text_content("#threshold-body .sentence"))

    position = next(k for k, share in enumerate(curves["false_accept"]) if share and share < 0.5)
    value, share = curves["thresholds"][position], curves["false_accept"][position]
    text = sentence(value)
    assert text.startswith(f"At {value:.2f}")
    assert f"{round(share * 10)} in 10" in text
    assert page.locator("#threshold-body svg circle").count() == 2
    assert "fewer than" in sentence(1)
    assert "no enrolled sample is recognized" in sentence(1)
    assert "every enrolled sample is recognized" in sentence(curves["thresholds"][0])
    box = page.locator("#threshold-body svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 80)
    page.mouse.up()
    assert 0.6 < float(page.input_value("#threshold-slider")) < 0.8
    text = page.text_content("#threshold-body .sentence")
    page.wait_for_selector(f"[role=status]:has-text('{text}')", state="attached")  # read out


# Keys


def enter(page: Any, key: str) -> None:
    page.wait_for_selector("#key-dialog[open]")
    page.fill("#key-input", key)
    page.keyboard.press("Enter")


def test_a_key_is_asked_for_until_one_is_right(
    open_page: Any, locked: Server, keys: dict[str, str]
) -> None:
    page = open_page(locked, "people", refused=True)
    page.wait_for_selector("#key-dialog[open]")
    assert page.evaluate("document.activeElement.id") == "key-input"
    page.keyboard.press("Escape")
    enter(page, "arcset_wrong")
    page.wait_for_selector("#key-error:not([hidden])")
    enter(page, keys["read"])
    page.wait_for_selector(READY["people"])
    page.reload()
    page.wait_for_selector("#gallery-line:has-text('1 subject, 1 sample, your key is read-only')")
    assert page.locator("#key-dialog[open]").count() == 0


def test_without_a_calibration_one_chooses_the_threshold(
    open_page: Any, locked: Server, keys: dict[str, str]
) -> None:
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
    page.click(".tabs [href='#/identify']")
    page.set_input_files("#identify-files", known)
    page.wait_for_selector(".answer.known")
    assert page.text_content(".answer.known .chance").startswith("Similarity 0.")


def test_an_empty_gallery_says_how_it_begins(
    open_page: Any, locked: Server, keys: dict[str, str]
) -> None:
    authorized = {"Authorization": f"Bearer {keys['write']}"}
    locked.request("DELETE", "/v1/subjects/somebody", headers=authorized)
    page = open_page(locked, refused=True)
    enter(page, keys["write"])
    page.wait_for_selector("#answers >> text=Nobody is enrolled yet")
    page.click(".tabs [href='#/people']")
    page.click("#people-empty >> text=Enroll a person")
    page.fill("dialog[open] input[type=text]", "somebody")
    folder = Path(keys["gallery"]).parent / "photos"
    page.set_input_files("dialog[open] input[type=file]", pattern(folder, "somebody", 0))
    page.keyboard.press("Enter")
    page.wait_for_selector(".person >> text=somebody")
    page.click(".tabs [href='#/identify']")
    page.wait_for_selector("#answers >> text=Nobody is enrolled yet", state="detached")
