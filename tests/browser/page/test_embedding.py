"""The fourth tab: runs side by side, over the epochs, turned and pointed at.

Goes with the page of today, whose elements it asks for by name; test_tabs.py stays.
"""

import io
import time

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.long


def seen(canvas) -> tuple[int, bytes]:
    """How many pixels of a canvas have a colour, and all of them."""
    pixels = np.asarray(Image.open(io.BytesIO(canvas.screenshot())).convert("RGB"), np.int16)
    return int((np.ptp(pixels, axis=2) > 60).sum()), pixels.tobytes()


def drawn(page) -> tuple[int, bytes]:
    """As `seen`, of the first panel."""
    return seen(page.locator(".panel > canvas").first)


def box(page, title: str):
    return page.locator(f".chip:has-text('{title}') input")


@pytest.fixture
def page(open_page, site):
    opened = open_page(site, "embedding", size=(1280, 1500))  # all of it in view
    opened.wait_for_selector(".panel > canvas")
    opened.wait_for_selector(".panel .soft:has-text('epoch 2')")
    return opened


def test_runs_are_drawn_side_by_side_up_to_four(page):
    assert drawn(page)[0] > 200
    assert box(page, "wide").is_disabled()
    for title in ("softmax-2", "again-0", "again-1", "again-2", "arcface-3"):
        if not box(page, title).is_disabled():
            box(page, title).check()
    page.wait_for_selector(".panel > canvas >> nth=3")
    assert page.locator(".panel > canvas").count() == 4
    assert page.locator(".chips input:not(:disabled)").count() == 4 + 3  # and three parts
    titles = page.locator(".panel h3").all_text_contents()
    assert "softmax-2" in titles
    for title in titles:
        box(page, title).uncheck()
    page.wait_for_selector("text=Choose a run")
    box(page, "softmax-2").check()
    page.wait_for_selector(".panel > canvas")
    assert drawn(page)[0] > 100


def test_the_epoch_moves_by_slider_keys_and_play(page):
    slider = page.locator("[aria-label=Epoch]")
    assert page.text_content(".time output") == "Epoch 2"
    last = drawn(page)
    slider.fill("0")
    assert page.text_content(".time output") == "Epoch 0"
    assert drawn(page) != last
    slider.press("ArrowRight")
    assert page.text_content(".time output") == "Epoch 1"
    slider.fill("0")
    page.click("text=Play")
    page.wait_for_selector("text=Pause")
    page.wait_for_selector(".time output:has-text('Epoch 2')")
    page.wait_for_selector("text=Play")
    deadline = time.monotonic() + 10
    while drawn(page) != last and time.monotonic() < deadline:  # the last step fades in
        page.wait_for_timeout(50)
    assert drawn(page) == last
    page.click("text=Play")
    page.wait_for_selector("text=Pause")
    page.click("#tab-people")
    page.click("#tab-embedding")
    page.wait_for_selector("text=Play")  # stopped when one looked away


def test_a_sphere_turns_by_dragging_and_by_keys(page):
    canvas = page.locator(".panel > canvas.turns").first
    before = seen(canvas)
    place = canvas.bounding_box()
    middle = (place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + 60, middle[1] + 20)
    page.mouse.up()
    turned = seen(canvas)
    assert turned != before
    canvas.focus()
    page.keyboard.press("ArrowLeft")
    assert seen(canvas) != turned


def test_points_show_their_images_by_pointer_and_by_keys(page):
    canvas = page.locator(".panel > canvas").first
    canvas.focus()
    page.keyboard.press("n")
    page.wait_for_selector(".tip:not([hidden])")
    name = page.text_content(".tip:not([hidden]) b")
    assert name in "0123456789"
    shown = page.locator(".tip:not([hidden]) canvas").screenshot()
    assert np.asarray(Image.open(io.BytesIO(shown)).convert("L")).max() > 150  # strokes of a digit
    place = page.locator(".tip:not([hidden])").bounding_box()
    assert 0 <= place["x"] <= 1280 - place["width"]
    page.keyboard.press("Escape")
    page.wait_for_selector(".tip:not([hidden])", state="detached")
    area = canvas.bounding_box()
    for row in range(4, 17):  # over the picture until a point is met
        for column in range(4, 17):
            page.mouse.move(
                area["x"] + column * area["width"] / 20, area["y"] + row * area["height"] / 20
            )
            if page.locator(".tip:not([hidden])").count():
                return
    raise AssertionError("no point was under the pointer")


def test_a_class_is_picked_out_and_parts_are_left_out(page):
    everything = drawn(page)[0]
    page.click(".legend button:has-text('1')")
    assert page.get_attribute(".legend button:has-text('1')", "aria-pressed") == "true"
    one = drawn(page)[0]
    assert one < everything
    page.click(".legend button:has-text('1')")
    assert drawn(page)[0] == everything
    box(page, "training").uncheck()
    assert drawn(page)[0] < everything
