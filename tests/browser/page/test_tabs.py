"""Every tab of the page in a real browser: what it is there for, found by role and label."""

import io
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from support.servers import Server, pattern

NAMELESS = """[...document.querySelectorAll("button, input, canvas[tabindex]")].filter((one) =>
    !(one.textContent.trim() || one.getAttribute("aria-label") || one.labels?.length)
).map((one) => one.outerHTML)"""


def is_sound(page: Any) -> bool:
    """Nothing runs over the edge, and every control has a name."""
    fits = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return bool(fits) and page.evaluate(NAMELESS) == []


def panel(page: Any) -> Any:
    """The tab that is open."""
    return page.locator("main > section:visible")


def exists(site: Server, name: str) -> bool:
    return site.get(f"/v1/subjects/{quote(name, safe='')}").status == 200


def ask(page: Any, *files: Path) -> list[Any]:
    """Give images to Identify; the newest answers, in their order."""
    page.get_by_role("link", name="Identify").click()
    panel(page).get_by_label("Choose images").set_input_files(list(files))
    answers = panel(page).get_by_role("article")
    newest = [answers.nth(place) for place in range(len(files))]
    for one in newest:
        one.and_(page.locator(":not([aria-busy])")).wait_for()
    return newest


def named(answer: Any) -> str | None:
    """Whom an answer names, in its heading."""
    found = re.search(r"subject \d\d", answer.get_by_role("heading").inner_text())
    return found and found[0]


def test_a_key_is_asked_for_and_one_for_reading_changes_nothing(
    open_page: Any, locked: Server, keys: dict[str, str]
) -> None:
    page = open_page(locked, "people", refused=True)
    page.get_by_label("Key", exact=True).fill(keys["read"])
    page.keyboard.press("Enter")
    everybody = panel(page).get_by_role("listitem").get_by_role("button")
    everybody.wait_for()
    kept = page.evaluate("[Object.values(sessionStorage), localStorage.length, document.cookie]")
    assert kept == [[keys["read"]], 0, ""]
    enroll = page.get_by_role("button", name="Enroll")  # among those that one can see
    assert enroll.count() == 0
    everybody.click()
    dialog = page.get_by_role("dialog", name="somebody")
    dialog.get_by_role("listitem").wait_for()
    assert dialog.get_by_role("button").count() == 1  # it closes
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Change key").click()
    page.get_by_label("Key", exact=True).fill(keys["write"])
    page.keyboard.press("Enter")
    enroll.wait_for()


@pytest.fixture
def known(people: Path) -> Path:
    return pattern(people / "photos", "subject 07")


def test_identify_names_those_enrolled_and_takes_in_a_stranger(
    open_page: Any, site: Server, people: Path, known: Path, tmp_path: Path
) -> None:
    stranger = pattern(people / "strangers", "nobody you know")
    broken = tmp_path / "broken.png"
    broken.write_bytes(known.read_bytes()[:40])
    page = open_page(site)
    first, second, third = ask(page, known, broken, stranger)
    assert is_sound(page)
    assert named(first) == "subject 07"
    sent = [("image", file) for file in (known, broken)]
    match, failed = site.form("/v1/identify?candidates=5", *sent).json()["results"]
    shown = [entry.inner_text() for entry in first.get_by_role("listitem").all()]
    assert len(shown) == 5
    for text, candidate in zip(shown, match["candidates"], strict=True):
        assert candidate["subject"] in text
        assert f"{candidate['cosine']:.2f}" in text
    assert failed["error"]["message"] in second.inner_text()
    assert named(third) is None

    third.get_by_role("button", name="Enroll").click()
    page.get_by_role("dialog").get_by_label("Name").fill("Newcomer Ω <b>")
    page.get_by_role("dialog").get_by_role("button", name="Enroll").click()
    page.get_by_role("dialog").wait_for(state="detached")
    assert exists(site, "Newcomer Ω <b>")
    site.request("DELETE", f"/v1/subjects/{quote('Newcomer Ω <b>')}")


def test_a_photo_of_more_pixels_than_the_service_reads_is_made_smaller_first(
    open_page: Any, site: Server, known: Path, tmp_path: Path
) -> None:
    pixels = np.asarray(Image.open(known).resize((6000, 6000), Image.Resampling.NEAREST))
    noise = np.random.default_rng(0).integers(-9, 10, (600, 600))  # or the file would be small
    noisy = np.clip(pixels + np.tile(noise, (10, 10)), 0, 255).astype(np.uint8)
    Image.fromarray(noisy).save(tmp_path / "phone.jpg")
    sent = ("image", tmp_path / "phone.jpg")
    assert site.form("/v1/identify", sent).code == "image_too_large"
    (answer,) = ask(open_page(site), tmp_path / "phone.jpg")
    assert "subject 07" in answer.inner_text()  # it was answered


def test_each_face_of_a_photo_has_its_card_and_its_box(
    open_page: Any, site: Server, known: Path
) -> None:
    found = site.form("/v1/identify", ("image", known)).json()
    (first,) = found["results"]
    first["faces"] = [
        {**first, "box": [1, 2, 4, 4]},
        {**first, "box": [5, 5, 3, 3], "subject": None, "reason": "below threshold"},
    ]
    page = open_page(site)
    page.route("**/v1/identify?*", lambda route: route.fulfill(json=found))
    (left,) = ask(page, known)
    right = panel(page).get_by_role("article").nth(1)
    assert (named(left), named(right)) == ("subject 07", None)
    box = panel(page).get_by_role("button", name="Face 1")
    place, shown = box.bounding_box(), panel(page).locator(".frame img").bounding_box()
    assert place["x"] - shown["x"] == pytest.approx(0.1 * shown["width"], abs=3)
    assert place["height"] == pytest.approx(0.4 * shown["height"], abs=3)
    panel(page).get_by_role("button", name="Face 2").click()
    assert right.evaluate("card => card === document.activeElement")
    assert is_sound(page)


def test_people_are_found_renamed_and_removed(open_page: Any, site: Server, people: Path) -> None:
    old, new = "old/name ?#%", "new <i>name</i>"
    files = [("image", pattern(people / "more", "old", number)) for number in range(2)]
    assert site.form("/v1/subjects", ("name", old), *files).status == 201
    page = open_page(site, "people")
    everybody = panel(page).get_by_role("listitem").get_by_role("button")
    everybody.nth(40).wait_for()
    panel(page).get_by_role("button", name="Show more").click()
    total = site.get("/v1/subjects?limit=1").json()["total"]
    everybody.nth(total - 1).wait_for()
    assert is_sound(page)

    panel(page).get_by_role("searchbox").fill("OLD/name")
    everybody.nth(1).wait_for(state="detached")
    everybody.click()
    dialog = page.get_by_role("dialog", name=old)
    dialog.get_by_role("img").or_(dialog.locator("img")).nth(1).wait_for()
    assert dialog.get_by_role("listitem").count() == 2
    dialog.get_by_label("Add images").set_input_files(pattern(people / "more", "old", 7))
    dialog.get_by_role("listitem").nth(2).wait_for()
    dialog.get_by_label("Name").fill(new)
    dialog.get_by_label("Name").press("Enter")
    dialog = page.get_by_role("dialog", name=new)
    dialog.wait_for()
    assert (exists(site, new), exists(site, old)) == (True, False)

    dialog.get_by_role("button", name="Remove from").click()
    page.keyboard.press("Escape")  # one is asked first, and Escape means no
    assert exists(site, new)
    dialog.get_by_role("button", name="Remove from").click()
    page.get_by_role("dialog").last.get_by_role("button", name="Remove").click()
    dialog.wait_for(state="detached")
    assert not exists(site, new)


def test_the_threshold_that_one_chooses_decides_what_is_known(
    open_page: Any, site: Server, known: Path
) -> None:
    page = open_page(site, "threshold")
    slider = panel(page).get_by_role("slider")
    calibrated = site.get("/v1/threshold").json()["working_point"]["threshold"]
    assert float(slider.input_value()) == pytest.approx(calibrated, abs=0.005)
    panel(page).get_by_role("img").wait_for()
    assert is_sound(page)
    slider.fill("0.5")
    slider.press("ArrowRight")
    assert "0.505" in slider.get_attribute("aria-valuetext")
    slider.fill("1")
    assert named(*ask(page, known)) is None
    page.reload()
    assert named(*ask(page, known)) is None  # for as long as the tab is open
    panel(page).get_by_role("button", name="calibrated").click()
    assert named(*ask(page, known)) == "subject 07"


def pixels(picture: Any) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture.screenshot())).convert("RGB"), np.int16)


def coloured(picture: Any) -> int:
    """How many pixels have a colour."""
    return int((np.ptp(pixels(picture), axis=2) > 60).sum())


def test_embeddings_are_drawn_over_the_epochs_and_turn_and_show_their_images(
    open_page: Any, site: Server
) -> None:
    page = open_page(site, "embedding", size=(1280, 1500))  # all of it in view
    choice = panel(page).get_by_role("group", name="Runs")
    flat, sphere = (panel(page).get_by_role("img", name=run) for run in ("softmax-2", "arcface-64"))
    flat.wait_for()
    choice.get_by_label("arcface-64").check()  # is projected
    sphere.wait_for()
    assert is_sound(page)
    assert min(coloured(flat), coloured(sphere)) > 100
    panel(page).get_by_text("kept: empty").wait_for()

    slider = panel(page).get_by_role("slider", name="Epoch")
    assert slider.input_value() == "2"
    last = pixels(flat)
    slider.fill("0")
    assert (pixels(flat) != last).any()
    panel(page).get_by_role("button", name="Play").click()
    panel(page).get_by_role("button", name="Pause").wait_for()
    panel(page).get_by_role("button", name="Play").wait_for()
    assert slider.input_value() == "2"
    panel(page).get_by_role("button", name="Play").click()
    page.get_by_role("link", name="People").click()
    page.get_by_role("link", name="Embedding").click()
    panel(page).get_by_role("button", name="Play").wait_for()  # it stopped when one looked away
    slider.fill("2")

    before = pixels(sphere)
    sphere.press("ArrowLeft")
    assert (pixels(sphere) != before).any()
    everything = coloured(flat)
    panel(page).get_by_role("group", name="Samples").get_by_label("test").uncheck()
    assert coloured(flat) < everything
    flat.press("n")  # the next point: its class, beside its image
    told = panel(page).get_by_role("status")
    assert re.match(r"\d · never seen\s+nearest center: [0-2]", told.inner_text())
    assert pixels(told.locator("canvas")).max() > 150  # strokes of a digit


def test_four_runs_are_open_at_most_and_one_that_is_gone_is_said(
    open_page: Any, site: Server, runs: Path
) -> None:
    page = open_page(site, "embedding", refused=True)
    choice = panel(page).get_by_role("group", name="Runs")
    kept = runs / "again-1" / "embeddings" / "samples.safetensors"
    choice.get_by_label("softmax-2").wait_for()
    content = kept.read_bytes()
    kept.unlink()
    try:
        choice.get_by_label("again-1").check()
        panel(page).get_by_text("cannot be read any more").wait_for()
    finally:
        kept.write_bytes(content)
    choice.get_by_label("again-1").uncheck()
    for run in ("again-0", "again-1", "again-2"):  # the second is asked for again
        choice.get_by_label(run).check()
    panel(page).get_by_role("img", name="again-1").wait_for()
    panel(page).get_by_role("img").nth(3).wait_for()
    assert choice.get_by_label("arcface-64").is_disabled()
    choice.get_by_label("again-0").uncheck()
    assert choice.get_by_label("arcface-64").is_enabled()
