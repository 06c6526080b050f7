"""The report in a real browser: it works, alone, at every width, with mouse, finger and keys.

Goes with the viewer's script, whose `arcsetViewer` it asks; test_reports.py stays.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arcset.reports.page import Section
from arcset.reports.run_report import RunReport
from arcset.reports.view import RunView
from arcset.runs import RunConfig
from arcset.training import train

pytestmark = pytest.mark.long

MEASURES = ("accuracy", "dunn", "dunn_trimmed", "dunn_trimmed_unit", "unseen_auc", "unseen_eer")
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Path:
    """A page from two tiny real runs, a circle and a sphere."""
    place = tmp_path_factory.mktemp("report")
    views = []
    for loss, dim in (("softmax", 2), ("arcface", 3)):
        config = RunConfig(
            data="mnist-sample",
            classes="0-2",
            loss=loss,
            network="mlp",
            dim=dim,
            epochs=2,
            batch=128,
            snapshot=60,
            optimizer="adamw",
            learning_rate=0.002,
        )
        views.append(RunView(train(config, place / loss, device="cpu").path))
    cell = {"mean": 0.5, "low": 0.25, "high": 0.75}
    losses = {"softmax, no bias": 1.0, "arcface": 2.0}
    report = RunReport(
        title="Two losses on three digits",
        runs=views,
        comparison={
            "runs": [{"seed": 0}, {"seed": 1}],
            "summary": {
                loss: {name: {k: v * by for k, v in cell.items()} for name in MEASURES}
                for loss, by in losses.items()
            },
        },
        measures=dict.fromkeys(MEASURES, "what it means"),
        more=[Section("Reading", [], "This.", "That.", rows=[["a"] * 30, ["wide"] * 30])],
        verdict="A word without a break: " + "x" * 80,
        command="arcset demo " + "--option value " * 20,
    )
    return report.write(place)


@pytest.fixture
def open_page(open_address: Open, report: Path) -> Open:
    """Open the page, offline."""

    def opened(width: int = 1280, **options: Any) -> Any:
        page = open_address(report.as_uri(), size=(width, 850), offline=True, **options)
        assert page.evaluate("arcsetViewer.panels.length") == 2
        settle(page)
        return page

    return opened


def settle(page: Any) -> None:
    """Wait until what was asked for is drawn."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def until(page: Any, condition: str) -> None:
    """Wait for `condition`; playwright's own wait needs eval, which the page's policy forbids."""
    deadline = time.monotonic() + 20
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, f"waited in vain for {condition}"
        page.wait_for_timeout(20)


def picture(page: Any, panel: int = 0) -> str:
    """What a panel shows, as an address of its pixels."""
    settle(page)
    found: str = page.evaluate(f"arcsetViewer.panels[{panel}].canvas.toDataURL()")
    return found


def hover(page: Any, panel: int, part: str, i: int) -> None:
    page.locator(".panel canvas").nth(panel).scroll_into_view_if_needed()
    spot = page.evaluate(f"arcsetViewer.position({panel}, '{part}', {i})")
    page.mouse.move(spot["x"], spot["y"])
    settle(page)


def test_it_opens_at_the_last_epoch_with_test_and_unseen(open_page: Open) -> None:
    page = open_page()
    assert page.locator(".epoch-text").inner_text() == "Epoch 2 of 2"
    assert page.evaluate("arcsetViewer.parts") == {"train": False, "test": True, "unseen": True}
    hollow = page.locator(".legend .mark.hollow").count()
    assert (hollow, page.locator(".legend button").count()) == (7, 10)


def test_reduced_motion_plays_in_steps_and_does_not_turn(open_page: Open) -> None:
    page = open_page(reduced_motion="reduce")
    yaw = page.evaluate("arcsetViewer.yaw")
    page.locator(".play").click()
    until(page, "arcsetViewer.time > 0")
    assert page.evaluate("arcsetViewer.time") in (1, 2)
    assert page.evaluate("arcsetViewer.yaw") == yaw


def test_toggles_show_and_hide_samples_and_runs(open_page: Open) -> None:
    page = open_page()
    full = picture(page)
    for part in ("unseen", "train"):
        page.locator(f"[data-part={part}]").click()
        assert picture(page) != full
        page.locator(f"[data-part={part}]").click()
        page.mouse.move(0, 0)
        assert picture(page) == full
    page.get_by_label("softmax", exact=True).press("Space")
    assert page.locator(".panel h3").all_inner_texts() == ["arcface"]
    page.get_by_label("arcface", exact=True).uncheck()
    assert page.locator(".empty").is_visible()
    page.get_by_label("softmax", exact=True).check()
    assert picture(page)


@pytest.mark.parametrize("panel", [0, 1])
def test_pointing_at_a_sample_shows_its_image_and_angles(open_page: Open, panel: int) -> None:
    page = open_page()
    page.locator("[data-part=unseen]").click()
    hover(page, panel, "test", 0)
    focus = page.evaluate(
        f"(({{part, i}}) => [part.name, i, part.classes[i]])(arcsetViewer.panels[{panel}].focus)"
    )
    said = page.locator(".tip").inner_text()
    assert said.startswith(f"{focus[2]} · test")
    angles = page.evaluate(
        f"[...arcsetViewer.panels[{panel}].run.parts.find(p => p.name === 'test')"
        f".frames.at(-1).angles.slice({3 * focus[1]}, {3 * focus[1] + 3})]"
    )
    shown = [float(angle) for angle in re.findall(r"([\d.]+)°", said)]
    assert shown == pytest.approx([angle / 100 for angle in angles[:2]], abs=0.06)
    pixels = page.evaluate(
        "(c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data])"
        "(document.querySelector('.tip canvas'))"
    )
    assert len(pixels) == 28 * 28 * 4
    assert max(pixels[0::4]) > 150
    page.mouse.move(0, 0)
    assert page.locator(".tip").is_hidden()
    page.locator("[data-part=unseen]").click()
    page.locator("[data-part=test]").click()
    hover(page, panel, "unseen", 4)
    words = r"^[3-9] · unseen\s+nearest center: [0-2], [\d.]+° away$"
    assert re.search(words, page.locator(".tip").inner_text())


def drag(page: Any, panel: int) -> None:
    canvas = page.locator(".panel canvas").nth(panel)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 130, steps=4)
    page.mouse.up()
    page.mouse.move(0, 0)


def test_dragging_turns_the_sphere(open_page: Open) -> None:
    page = open_page()
    before, yaw = picture(page, 1), page.evaluate("arcsetViewer.yaw")
    drag(page, 1)
    assert page.evaluate("arcsetViewer.yaw") == pytest.approx(yaw + 0.8)
    assert picture(page, 1) != before


def test_a_tap_shows_the_sample_on_a_phone(open_page: Open) -> None:
    page = open_page(360, has_touch=True)
    canvas = page.locator(".panel canvas").first
    canvas.scroll_into_view_if_needed()
    spot = page.evaluate("arcsetViewer.position(0, 'test', 1)")
    page.touchscreen.tap(spot["x"], spot["y"])
    settle(page)
    tip = page.locator(".tip").bounding_box()
    assert tip["x"] >= 0
    assert tip["x"] + tip["width"] <= 360


@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_runs_over_the_edge(open_page: Open, artefacts: Path, width: int) -> None:
    page = open_page(width)
    page.locator("#losses summary").click()
    page.locator("#runs summary").first.click()
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    lefts = [panel.bounding_box()["x"] for panel in page.locator(".panel").all()]
    assert (lefts[0] == lefts[1]) == (width == 360)  # stacked on a phone, side by side otherwise
    page.screenshot(path=artefacts / f"report-{width}.png", full_page=True)


def test_light_and_dark_follow_the_system_and_the_button(open_page: Open) -> None:
    page = open_page(color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark, drawn = page.evaluate(ground), picture(page)
    page.locator("#theme").click()
    light = page.evaluate(ground)
    assert light != dark
    assert picture(page) != drawn
    assert page.locator("#theme").inner_text().endswith("Dark")
    page.locator("#theme").press("Enter")
    assert page.evaluate(ground) == dark
    page = open_page(color_scheme="light")
    assert page.evaluate(ground) == light
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) == dark


def test_text_stands_out_from_its_ground(open_page: Open) -> None:
    """WCAG AA: at least 4.5 to 1 for every text colour on every ground it stands on."""

    def luminance(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme)
        read = "name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()"
        pairs = [("--ink", g) for g in ("--ground", "--card", "--tint")]
        pairs += [("--soft", g) for g in ("--ground", "--card")]
        pairs += [("--accent", g) for g in ("--ground", "--card")] + [("--on-accent", "--accent")]
        for text, ground in pairs:
            levels = sorted(luminance(page.evaluate(read, name)) for name in (text, ground))
            assert (levels[1] + 0.05) / (levels[0] + 0.05) >= 4.5, (scheme, text, ground)


def test_every_control_has_a_name(open_page: Open) -> None:
    page = open_page()
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, input, canvas[tabindex], img, [role=region]')]"
        ".filter(e => !(e.getAttribute('aria-label') || e.getAttribute('alt') || e.labels?.length"
        " || e.textContent.trim())).map(e => e.outerHTML)"
    )
    assert nameless == []


def test_a_picture_is_enlarged_moved_and_reset(open_page: Open) -> None:
    page = open_page()
    full = picture(page)
    canvas = page.locator(".panel canvas").first
    page.locator(".panel").first.get_by_label("Zoom in").click()
    near = picture(page)
    assert near != full
    drag(page, 0)
    assert picture(page) not in (near, full)
    canvas.focus()
    page.keyboard.press("0")
    assert picture(page) == full
    page.keyboard.press("ArrowLeft")
    assert page.locator(".epoch-text").inner_text() == "Epoch 1 of 2"


def test_a_run_that_comes_later_gets_the_numbers_of_the_classes_that_are_there(
    open_page: Open,
) -> None:
    page = open_page()
    page.evaluate(
        """() => {
        const points = [1, 0, 0, 1, 0.9, 0.1], run = { epochs: [0], dim: 2, unit: false, radius: 1,
          known: [0, 1], centers: [[[1, 0], [0, 1]]],
          parts: [{ name: "test", classes: [0, 1, 0], sheet: null, frames: [{ points }] }] };
        const later = { classes: ["a", "b"], sheets: [], runs: [run] };
        const data = { classes: ["b"], shown: [0],
          colours: { light: ["red", "blue"], dark: ["red", "blue"] },
          runs: [{ name: "late", load: () => Promise.resolve(later) },
                 { name: "lost", load: () => Promise.reject(new Error("is gone")) }] };
        const { constructor } = arcsetViewer;
        window.late = new constructor(document.getElementById("viewer"), data, {});
        }"""
    )
    until(page, "late.panels.length === 1")
    assert page.evaluate("[late.classes, late.panels[0].run.known]") == [["b", "a"], [1, 0]]
    page.get_by_label("lost").check()
    page.get_by_text("is gone").wait_for()
    left, up = (
        page.evaluate(f"(({{x, y}}) => [x, y])(late.position(0, 'test', {i}))") for i in (0, 1)
    )
    assert left[0] > up[0]
    assert left[1] > up[1]
