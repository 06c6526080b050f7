"""The second tab: everybody, page by page, and every change that one may make.

Goes with the page of today, whose elements it asks for by name; test_tabs.py stays.
"""

from urllib.parse import quote

import pytest

from support.servers import Server, pattern

pytestmark = pytest.mark.long

PERSON = "button.person:not(.waiting)"


def exists(site: Server, name: str) -> bool:
    return site.get(f"/v1/subjects/{quote(name, safe='')}").status == 200


@pytest.fixture
def enrolled(site, people):
    """Enroll somebody with three samples under a name of one's own."""

    def enroll(name: str) -> str:
        files = [pattern(people / "more", name.replace("/", "-"), number) for number in range(3)]
        given = [("image", file) for file in files]
        assert site.form("/v1/subjects", ("name", name), *given).status == 201
        return name

    return enroll


def search(page, text: str) -> None:
    page.fill("#people-search", text)
    page.wait_for_selector(f"#people-count:has-text('“{text}”')")


def test_everybody_is_listed_page_by_page_with_thumbnails(open_page, site):
    page = open_page(site, "people")
    page.wait_for_selector(PERSON)
    assert page.locator(PERSON).count() == 48
    assert page.locator(".person .name").first.text_content() == "subject 00"
    page.wait_for_selector(".person img")
    page.click("#people-more")
    page.wait_for_selector("#people-more", state="hidden")
    total = site.get("/v1/subjects?limit=1").json()["total"]
    assert page.locator(PERSON).count() == total > 48
    assert page.evaluate("document.activeElement.className").startswith("person")


def test_names_are_searched_for(open_page, site):
    page = open_page(site, "people")
    search(page, "SUBJECT 1")
    assert page.locator(PERSON).count() == 10
    assert page.text_content("#people-count") == "10 names with “SUBJECT 1”"
    search(page, "no such")
    page.wait_for_selector("#people-empty >> text=No enrolled name contains “no such”.")
    page.click("text=Show all")
    page.wait_for_selector(f"{PERSON} >> nth=20")


def test_a_subject_is_opened_renamed_and_removed(open_page, site, people, enrolled):
    old, new = enrolled("old/name ?#%"), "new <i>name</i>"
    page = open_page(site, "people")
    search(page, "old/name")
    page.click(PERSON)
    page.wait_for_selector("dialog .samples img >> nth=2")
    assert page.text_content("#person-title") == old
    assert "3 samples, the first added on" in page.text_content("dialog[open] .soft")

    page.set_input_files("dialog[open] input[type=file]", pattern(people / "more", "old", 7))
    page.wait_for_selector("dialog .samples li >> nth=3")
    page.click("dialog .samples li:nth-child(2) button")
    page.click("text=Cancel")
    assert page.locator("dialog .samples li").count() == 4
    page.click("dialog .samples li:nth-child(2) button")
    page.click(".small-dialog >> text=Remove >> nth=-1")
    page.wait_for_selector("dialog .samples li >> nth=3", state="detached")

    page.fill("dialog[open] input[type=text]", new)
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#person-title:has-text('{new}')")
    assert exists(site, new)
    assert not exists(site, old)

    page.click("text=Remove from the gallery")
    page.wait_for_selector(".small-dialog")
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    page.keyboard.press("Escape")
    assert exists(site, new)
    page.click("text=Remove from the gallery")
    page.click(".small-dialog .danger")
    page.wait_for_selector("dialog[open]", state="detached")
    assert not exists(site, new)
    page.wait_for_selector(f".toast:has-text('{new} was removed.')")


def test_a_name_that_is_taken_is_refused_and_nothing_changes(open_page, site, enrolled):
    name = enrolled("taken away")
    page = open_page(site, "people", refused=True)
    search(page, name)
    page.click(PERSON)
    page.fill("dialog[open] input[type=text]", "subject 03")
    page.click("text=Rename")
    page.wait_for_selector("dialog[open] .toast.bad")  # not behind it
    assert page.text_content("#person-title") == name
    assert exists(site, name)


def test_the_last_sample_takes_its_subject_with_it(open_page, site, people):
    site.form("/v1/subjects", ("name", "single"), ("image", pattern(people / "more", "single")))
    page = open_page(site, "people")
    search(page, "single")
    page.click(PERSON)
    page.click("dialog .samples li button")
    page.wait_for_selector(".small-dialog >> text=It is the only sample")
    page.click(".small-dialog .danger")
    page.wait_for_selector("dialog[open]", state="detached")
    assert not exists(site, "single")


def test_somebody_is_enrolled(open_page, site, people, tmp_path):
    files = [pattern(people / "more", "anna", number) for number in (1, 2, 3)]
    page = open_page(site, "people", refused=True)
    page.wait_for_selector(PERSON)
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
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
