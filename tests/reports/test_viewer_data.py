"""What the report hands to its viewer: points, angles and thumbnails, packed into text.

Goes with that packing; what is drawn of it is looked at in tests/browser.
"""

import base64
import io
import json
import math
from typing import Any

import numpy as np
import pytest
from PIL import Image

from arcset.reports import RunView
from arcset.reports.viewer import NO_ANGLE, viewer_data


@pytest.fixture(scope="module")
def views(views: dict[str, RunView]) -> list[RunView]:
    """Both kinds of space, with and without centers, 2, 3 and 5 dimensions."""
    return [views[name] for name in ("softmax", "sphere", "triplet", "wide")]


@pytest.fixture(scope="module")
def data(views: list[RunView]) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(json.dumps(viewer_data(views)))
    return content


def points(frame: dict[str, Any], dim: int) -> np.ndarray:
    whole = np.frombuffer(base64.b64decode(frame["points"]), "<i2").reshape(-1, dim)
    return whole * frame["scale"]


def angles(frame: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(frame["angles"]), "<u2").reshape(-1, 3)


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


def test_classes_and_thumbnails_are_shared(data: dict[str, Any], views: list[RunView]) -> None:
    assert data["classes"] == [str(digit) for digit in range(10)]
    unseen = data["runs"][0]["parts"][-1]
    names = [data["classes"][number] for number in unseen["classes"]]
    sample = views[0].sampled("unseen")
    assert names == [sample.class_names[label] for label in sample.labels]
    assert len(data["sheets"]) == 3  # train, test and unseen of the same data
    test = next(part for part in data["runs"][1]["parts"] if part["name"] == "test")
    sheet = data["sheets"][test["sheet"]]
    content = base64.b64decode(sheet["url"].partition(",")[2])
    pixels = np.asarray(Image.open(io.BytesIO(content)).convert("L"), int)
    y, x = divmod(17, sheet["columns"])
    tile = pixels[28 * y : 28 * (y + 1), 28 * x : 28 * (x + 1)]
    assert np.abs(tile - views[1].sampled("test").images[17]).max() <= 32  # 16 shades of grey
