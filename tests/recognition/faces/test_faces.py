import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from arcset.errors import DataError, OptionError
from arcset.recognition.faces import Face, Faces, Pixels, align, read_photo
from support.face_models import FaceModels


def scaled(photo: Pixels, width: int, height: int | None = None) -> Pixels:
    return np.asarray(Image.fromarray(photo).resize((width, height or width)))


def middle(face: Face) -> tuple[float, float]:
    left, top, width, height = face.box
    return left + width / 2, top + height / 2


def test_one_face_with_box_points_and_score(faces: Faces, photo: Pixels) -> None:
    found = faces.find(photo)
    assert (len(found), found.small, found.why) == (1, (), "")
    face = found.faces[0]
    assert np.abs(np.subtract(middle(face), 125)).max() < 15  # the photos are centered on it
    assert 60 < face.size < 120
    assert 0.7 <= face.score <= 1
    left_eye, right_eye, nose, left_mouth, right_mouth = face.points
    assert left_eye[0] < nose[0] < right_eye[0]
    assert left_eye[1] < nose[1] < left_mouth[1]
    assert left_mouth[0] < right_mouth[0]
    assert len(face.json()["points"]) == 5


def test_of_several_the_largest_comes_first(faces: Faces, people: list[Path]) -> None:
    sides = (150, 400, 250)
    scene = np.full((400, 900, 3), 90, np.uint8)
    left = 0
    for path, side in zip(people, sides, strict=False):
        scene[:side, left : left + side] = scaled(read_photo(path), side)
        left += side + 20
    found = faces.find(scene).faces
    assert np.argsort([middle(face)[0] for face in found]).tolist() == [2, 0, 1]
    assert found[0].size > found[1].size > found[2].size


def test_no_face(faces: Faces, nothing: Pixels) -> None:
    found = faces.find(nothing)
    assert not found
    assert "no face" in found.why
    assert not faces.find(np.zeros((1, 900), np.uint8))


def test_too_small_and_how_small(faces: Faces, models: FaceModels, photo: Pixels) -> None:
    found = faces.find(scaled(photo, 50))
    assert (len(found), len(found.small)) == (0, 1)
    assert re.search(rf"\b{found.small[0].size:.0f}\b.*\b24\b", found.why)
    assert Faces.load(models.detector, least=10).find(scaled(photo, 50))


def test_a_huge_photo_is_aligned_from_its_own_pixels(faces: Faces, photo: Pixels) -> None:
    """A face of 200 pixels in 24 megapixels: looked for in small, cut out in full."""
    scene = np.full((4000, 6000, 3), 120, np.uint8)
    scene[1500:2000, 4000:4500] = scaled(photo, 500)
    found = faces.find(scene).faces[0]
    assert np.abs(np.subtract(middle(found), (4250, 1750))).max() < 40
    alone = align(scaled(photo, 500), np.array(found.points) - (4000, 1500)).astype(int)
    shrunk = (np.array(found.points) + 0.5) * 1280 / 6000 - 0.5
    coarse = align(scaled(scene, 1280, 853), shrunk)
    assert np.abs(align(scene, found.points) - alone).mean() < 0.5
    assert np.abs(coarse - alone).mean() > 1.5


def test_a_face_that_fills_a_large_photo(faces: Faces, photo: Pixels) -> None:
    close = scaled(photo[50:200, 60:190], 2600, 3000)
    found = faces.find(close)
    assert len(found) == 1
    assert found.faces[0].size > 1000


def test_what_is_no_detector_is_refused(models: FaceModels, tmp_path: Path) -> None:
    (tmp_path / "words.onnx").write_text("no network")
    for path in (tmp_path / "words.onnx", tmp_path / "missing.onnx", models.recognizer):
        with pytest.raises(DataError, match=path.name):
            Faces.load(path)
    for wrong in ({"score": 1.5}, {"least": 0}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            Faces.load(models.detector, **wrong)


def test_without_opencv_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(OptionError, match=r"arcset\[faces\]"):
        Faces.load("yunet.onnx")
