"""The first tab: images chosen, dropped and pasted, and what is answered.

Goes with the page of today, whose elements it asks for by name; test_tabs.py stays.
"""

import base64
from pathlib import Path

import pytest

from support.patterns import calibrated_run, pictures
from support.servers import pattern, served, typed

pytestmark = pytest.mark.long

GIVE = """([where, kind, content, name, type]) => {
    const bytes = Uint8Array.from(atob(content), (one) => one.charCodeAt(0));
    const data = new DataTransfer();
    data.items.add(new File([bytes], name, {type}));
    const given = kind === "paste"
        ? new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true})
        : new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true});
    document.querySelector(where).dispatchEvent(given);
}"""


def give(page, where: str, kind: str, path: Path) -> None:
    content = base64.b64encode(path.read_bytes()).decode()
    page.evaluate(GIVE, [where, kind, content, path.name, "image/png"])


@pytest.fixture
def known(people):
    return pattern(people / "photos", "subject 07")


@pytest.fixture
def stranger(people):
    return pattern(people / "strangers", "nobody you know")


def test_somebody_enrolled_is_named_with_a_likelihood(open_page, site, known):
    page = open_page(site)
    page.wait_for_selector("#identify-point strong")
    page.set_input_files("#identify-files", known)
    page.wait_for_selector(".answer.known")
    assert page.text_content(".verdict") == "This is subject 07."
    chance = page.text_content(".chance")
    assert "%" in chance
    assert page.locator(".bars li").count() == 5
    assert page.text_content(".bars li.first .name") == "subject 07"
    assert page.locator(".bars .cut").count() == 5
    page.wait_for_selector("figcaption:has-text('enrolled: subject 07')")
    assert page.text_content("#identify-said") == f"This is subject 07. {chance}."
    answer = site.form("/v1/identify?candidates=5", ("image", known)).json()["results"][0]
    shown = [float(text) for text in page.locator(".bars .value").all_text_contents()]
    assert shown == [round(one["cosine"], 2) for one in answer["candidates"]]


def test_a_rough_threshold_is_called_rough(browser, open_page, tmp_path):
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
        page.click("#tab-threshold")
        page.wait_for_selector(".facts >> text=a rough one, which is in use")
        assert "4 identities" in page.text_content("#threshold-body .notice")
        page.close()


def test_a_stranger_is_nobody(open_page, site, stranger):
    page = open_page(site)
    page.set_input_files("#identify-files", stranger)
    page.wait_for_selector(".answer.unknown")
    assert page.text_content(".verdict") == "No enrolled person matches."
    assert page.text_content(".chance").startswith("The closest is subject ")
    assert page.locator(".bars li.over").count() == 0


def test_several_at_once_each_get_their_answer(open_page, site, people, known, stranger, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(known.read_bytes()[:40])
    others = [people / "photos" / f"subject {number:02d}" / "00.png" for number in range(9)]
    page = open_page(site)
    page.set_input_files("#identify-files", [known, broken, stranger, *others])
    assert page.locator(".answer").count() == 12
    for place in range(12):
        page.locator(".answer").nth(place).locator(".verdict").wait_for()
    verdicts = page.locator(".answer .verdict").all_text_contents()
    assert verdicts[:3] == [
        "This is subject 07.",
        "No answer for this image.",
        "No enrolled person matches.",
    ]
    assert verdicts[3:] == [f"This is subject {number:02d}." for number in range(9)]
    assert page.locator(".answer.failed .soft").first.text_content().endswith(".")


def test_a_file_that_is_no_image_is_said_to_be_none(open_page, site, tmp_path):
    text = tmp_path / "letter.txt"
    text.write_text("Dear Anna")
    page = open_page(site, refused=True)
    page.set_input_files("#identify-files", text)
    page.wait_for_selector(".answer.failed")
    assert page.text_content(".answer .verdict") == "No answer for this image."


def test_images_are_dropped_and_pasted(open_page, site, known, stranger):
    page = open_page(site)
    give(page, "#identify-drop", "drop", known)
    page.wait_for_selector(".answer.known")
    give(page, "body", "paste", stranger)
    page.wait_for_selector(".answer.unknown")
    assert page.locator(".answer").count() == 2


def test_whom_nobody_knows_can_be_enrolled_from_the_answer(open_page, site, people):
    first, second = (pattern(people / "new", "newcomer", number) for number in (1, 2))
    page = open_page(site)
    page.set_input_files("#identify-files", first)
    page.click(".answer.unknown >> text=Enroll as a new person")
    page.fill("dialog input[type=text]", "Stranger Ω <b>")
    page.click("dialog >> text=Enroll >> nth=-1")
    page.wait_for_selector(".toast:has-text('Stranger Ω <b> was enrolled with 1 sample.')")
    page.set_input_files("#identify-files", second)
    page.wait_for_selector(".answer.known")
    assert page.locator(".verdict").first.text_content() == "This is Stranger Ω <b>."
    page.click(".answer.known >> text=Add as a sample")
    page.click("dialog[open] button[type=submit]")
    page.wait_for_selector(".toast:has-text('1 sample of Stranger Ω <b> added.')")
    assert site.get("/v1/subjects/Stranger%20%CE%A9%20%3Cb%3E").json()["samples"] == 2
