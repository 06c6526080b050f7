"""The report: one file, complete, safe and the same every time."""

import base64
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from arcset.errors import InputError
from arcset.pictures.report import Section, write_report
from arcset.pictures.report.angles import NO_ANGLE, sample_angles
from arcset.pictures.report.images import figure_image, sprite_sheet
from arcset.pictures.report.payload import quantized
from arcset.pictures.view import RunView

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)> & \"quoted\""
MEASURES = {"accuracy": "share named rightly", "unseen_eer": "errors on <unseen> classes"}


def figure() -> Figure:
    made = Figure(figsize=(3, 2))
    made.subplots().plot([1, 3, 2])
    return made


def png() -> bytes:
    file = io.BytesIO()
    Image.new("L", (5, 4)).save(file, "PNG")
    return file.getvalue()


def cell(mean: float, spread: float = 0.0) -> dict[str, float]:
    return {"mean": mean, "low": mean - spread, "high": mean + spread}


COMPARISON = {
    "runs": [{"loss": "a", "seed": 0}, {"loss": "a", "seed": 1}],
    "summary": {
        "softmax": {"accuracy": cell(0.9, 0.05), "unseen_eer": cell(0.3)},
        "arcface": {"accuracy": cell(0.93, 0.01), "unseen_eer": cell(0.4)},
        HOSTILE: {"accuracy": cell(0.5), "unseen_eer": {"mean": None, "low": None, "high": None}},
        "triplet": {"unseen_eer": cell(0.35)},
    },
}


def sections() -> list[Section]:
    return [
        Section("Curves", [figure(), png()], "It rises & falls.", "When <it> stands.", alts=["A"]),
        Section("Rows", [], "A table.", "Alone.", rows=[["loss", "angle"], [HOSTILE, "3°"]]),
    ]


@pytest.fixture(scope="module")
def views(views: dict[str, RunView]) -> list[RunView]:
    """Both kinds of space, with and without centers, 2, 3 and 5 dimensions."""
    return [views[name] for name in ("softmax", "sphere", "triplet", "wide")]


def written(path: Path, views: list[RunView], **options: Any) -> str:
    given = {
        "title": "Digits",
        "comparison": COMPARISON,
        "sections": sections(),
        "verdict": "It depends.",
        "measures": MEASURES,
        "command": "arcset demo",
        **options,
    }
    write_report(path, views=views, **given)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(views: list[RunView], tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("page") / "report.html", views)


@pytest.fixture(scope="module")
def data(page: str) -> dict[str, Any]:
    return payload(page)


def payload(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    content: dict[str, Any] = json.loads(found.group(1))
    return content


def points(frame: dict[str, Any], dim: int) -> np.ndarray:
    whole = np.frombuffer(base64.b64decode(frame["points"]), "<i2").reshape(-1, dim)
    return whole * frame["scale"]


def angles(frame: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(frame["angles"]), "<u2").reshape(-1, 3)


def test_it_is_one_small_file_that_asks_for_nothing(page: str) -> None:
    assert len(page.encode()) < 1_000_000
    assert "http://" not in page
    assert "https://" not in page
    assert "<link" not in page
    assert not re.search(r"<script[^>]*\ssrc", page)
    assert not re.search(r"url\((?!data:)|@import", page)
    sources = re.findall(r'<img[^>]*\ssrc="([^"]{0,20})', page)
    assert sources
    assert all(source.startswith("data:image/") for source in sources)


def test_eight_long_runs_stay_below_four_megabytes() -> None:
    rows = np.random.default_rng(0).normal(size=(1500, 3))
    _, drawn = quantized(rows)
    found = base64.b64encode(sample_angles(rows, np.eye(3), None).tobytes())
    assert 8 * 13 * (len(drawn) + len(found)) < 3e6  # runs, epochs; the thumbnails are shared


def test_the_same_input_gives_the_same_bytes(
    page: str, views: list[RunView], tmp_path: Path
) -> None:
    again = [RunView(view.run.path) for view in views]
    assert written(tmp_path / "again.html", again) == page


def test_the_page_holds_everything_in_order(page: str) -> None:
    parts = [
        "<h1>Digits</h1>",
        "Trained on <b>0, 1 and 2</b> of mnist-sample. Never shown: <b>3, 4, 5, 6, 7, 8 and 9</b>",
        "It depends.",
        "The losses side by side",
        "Look around",
        "<h2>Curves</h2>",
        "<h2>Rows</h2>",
        "Timings",
        "Configurations",
        "arcset demo",
    ]
    places = [page.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)
    assert page.count("<details>") == 1 + 4  # the columns' meanings, and a configuration per run
    assert "snapshot = 60" in page


def test_every_section_says_what_it_means_and_when_it_misleads(page: str) -> None:
    assert page.count("<strong>What it means</strong>") == 2
    assert page.count("<strong>When it misleads</strong>") == 2
    assert "It rises &amp; falls." in page
    assert "When &lt;it&gt; stands." in page
    assert re.findall(r'height="\d+" alt="([^"]*)"', page) == ["A", "Curves"]


def test_hostile_names_stay_text(views: list[RunView], tmp_path: Path) -> None:
    label = {views[0].title: HOSTILE}
    page = written(
        tmp_path / "r.html",
        views[:1],
        title=HOSTILE,
        verdict=HOSTILE,
        command=HOSTILE,
        labels=label,
        groups={HOSTILE: [views[0].title]},
        measures={**MEASURES, "accuracy": HOSTILE},
    )
    assert "alert('x')</script>" not in page
    assert "<img src=x" not in page
    assert '"quoted"' not in page.replace('\\"quoted\\"', "")
    assert page.count("<script") == 2
    assert payload(page)["runs"][0]["name"] == HOSTILE
    assert payload(page)["runs"][0]["group"] == HOSTILE


def test_the_best_is_marked_and_what_cannot_be_told_from_it(page: str) -> None:
    table, _, _ = page.partition("Look around")
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table)
    marks = {name: re.findall(r'<td class="(\w*)">', cells) for name, cells in rows}
    assert marks["softmax"] == ["near", "best"]  # its seeds reach arcface's; the least error
    assert marks["arcface"] == ["best", ""]
    assert marks["triplet"] == ["none", ""]
    assert "errors on &lt;unseen&gt; classes" in page


def test_decoded_points_are_the_frames(data: dict[str, Any], views: list[RunView]) -> None:
    for run, view in zip(data["runs"], views, strict=True):
        if view.config.dim > 3:
            continue
        for part in run["parts"]:
            for frame, kept in zip(part["frames"], view.frames, strict=True):
                exact = kept.parts[part["name"]]
                error = np.abs(points(frame, run["dim"]) - exact).max()
                assert error <= 0.5001 * np.abs(exact).max() / 32767


def test_more_dimensions_are_projected_and_the_page_says_so(
    data: dict[str, Any], views: list[RunView]
) -> None:
    run, view = data["runs"][3], views[3]
    assert run["dim"] == 3
    assert "5 dimensions, drawn in the 3" in run["notes"][0]
    test = next(part for part in run["parts"] if part["name"] == "test")
    drawn = points(test["frames"][-1], 3)
    exact = view.frames[-1].parts["test"].astype(np.float64)
    share = (drawn**2).sum() / (exact**2).sum()
    strengths = np.linalg.svd(exact, compute_uv=False) ** 2
    assert share == pytest.approx(strengths[:3].sum() / strengths.sum(), abs=1e-3)
    assert f"({share:.0%})" in run["notes"][0]


def test_angles_are_those_of_a_plain_computation(
    data: dict[str, Any], views: list[RunView]
) -> None:
    def degrees(a: np.ndarray, b: np.ndarray) -> float:
        cosine = float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
        return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))

    for run, view in zip(data["runs"], views, strict=True):
        for part in run["parts"]:
            sample = view.sampled(part["name"])
            assert sample is not None
            for frame, kept in zip(part["frames"], view.frames, strict=True):
                centers = kept.centers
                if centers is None:
                    train_labels = view.sampled("train").labels
                    rows = kept.parts["train"].astype(np.float64)
                    centers = np.stack([rows[train_labels == k].mean(0) for k in range(3)])
                for i, (own, other, which) in enumerate(angles(frame)):
                    x = kept.parts[part["name"]][i].astype(np.float64)
                    to = [degrees(x, center.astype(np.float64)) for center in centers]
                    if part["name"] == "unseen":
                        assert own == NO_ANGLE
                    else:
                        assert own / 100 == pytest.approx(to[sample.labels[i]], abs=0.02)
                        to[sample.labels[i]] = math.inf
                    assert other / 100 == pytest.approx(min(to), abs=0.02)
                    assert to[which] == pytest.approx(min(to), abs=0.02)


def test_a_single_center_has_no_other() -> None:
    found = sample_angles(np.eye(2), np.array([[2.0, 0.0]]), np.array([0, 0]))
    assert found.tolist() == [[0, NO_ANGLE, NO_ANGLE], [9000, NO_ANGLE, NO_ANGLE]]


def test_classes_are_numbered_across_parts(data: dict[str, Any], views: list[RunView]) -> None:
    assert data["classes"] == [str(digit) for digit in range(10)]
    unseen = data["runs"][0]["parts"][-1]
    names = [data["classes"][number] for number in unseen["classes"]]
    sample = views[0].sampled("unseen")
    assert names == [sample.class_names[label] for label in sample.labels]


def test_thumbnails_are_shared_and_hold_the_images(
    data: dict[str, Any], views: list[RunView]
) -> None:
    assert len(data["sprites"]) == 3  # train, test and unseen of the same data
    test = next(part for part in data["runs"][1]["parts"] if part["name"] == "test")
    sheet = data["sprites"][test["sprite"]]
    content = base64.b64decode(sheet["url"].partition(",")[2])
    pixels = np.asarray(Image.open(io.BytesIO(content)).convert("L"), int)
    y, x = divmod(17, sheet["columns"])
    tile = pixels[28 * y : 28 * (y + 1), 28 * x : 28 * (x + 1)]
    assert np.abs(tile - views[1].sampled("test").images[17]).max() <= 32  # 16 shades of grey


def test_points_limits_the_samples(views: list[RunView], tmp_path: Path) -> None:
    run = payload(written(tmp_path / "r.html", views[:1], points=10))["runs"][0]
    assert [len(part["classes"]) for part in run["parts"]] == [10, 10, 10]
    whole = views[0].sampled("test")
    first, last = points(run["parts"][1]["frames"][-1], 2)[[0, -1]]
    assert first == pytest.approx(whole.embeddings[0], abs=1e-3)
    assert last == pytest.approx(whole.embeddings[-1], abs=1e-3)


def test_a_report_without_runs_still_has_its_sections(tmp_path: Path) -> None:
    page = written(tmp_path / "r.html", [], comparison=None)
    assert '<section id="view" hidden>' in page
    assert "<h2>Curves</h2>" in page


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(InputError):
        quantized(np.array([[1.0, math.nan]]))


def test_zeros_are_kept_as_zeros() -> None:
    scale, text = quantized(np.zeros((2, 2)))
    assert scale > 0
    assert base64.b64decode(text) == bytes(8)


def test_large_and_coloured_images_become_thumbnails() -> None:
    sheet = sprite_sheet(np.zeros((5, 100, 50, 3), np.uint8))
    assert (sheet["width"], sheet["height"], sheet["columns"]) == (20, 40, 3)


def test_bytes_that_are_no_image_are_refused() -> None:
    with pytest.raises(InputError):
        figure_image(b"<svg onload=alert(1)>")
