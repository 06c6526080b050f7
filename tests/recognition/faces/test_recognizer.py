import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from arcset.errors import DataError
from arcset.recognition import Recognizer
from arcset.recognition.faces import (
    YUNET,
    FaceRecognizer,
    Faces,
    Pixels,
    read_photo,
)
from arcset.recognition.gallery import Gallery
from arcset.recognition.onnx_model import adopt
from arcset.recognition.recognizer import NoFaceError
from support.face_models import FaceModels

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")

SEVERAL = ("Abdullatif_Sener", "Adel_Al-Jubeir", "Alberto_Fujimori", "Barbra_Streisand")


@pytest.fixture(scope="module")
def plain(models: FaceModels) -> Recognizer:
    return Recognizer.from_onnx(models.recognizer, preset="sface")


@pytest.fixture(scope="module")
def recognizer(plain: Recognizer, faces: Faces) -> FaceRecognizer:
    return FaceRecognizer(plain, faces)


def test_as_opencv_embeds(
    models: FaceModels, recognizer: FaceRecognizer, people: list[Path]
) -> None:
    """OpenCV's own recognizer, with its own alignment, on the same photos."""
    own = cv2.FaceRecognizerSF.create(str(models.recognizer), "")
    found = recognizer.embed(people[:4])
    assert found.shape == (4, 128)
    assert found.dtype == np.float32
    for path, row in zip(people, found, strict=False):
        photo = np.ascontiguousarray(read_photo(path)[:, :, ::-1])
        face = recognizer.faces.find(path).faces[0]
        given = np.array([*face.box, *np.ravel(face.points), face.score], np.float32)
        expected = own.feature(own.alignCrop(photo, given[None]))[0]
        assert float(row @ expected) / np.linalg.norm(expected) > 0.9995


def test_photos_without_a_face_are_listed(
    recognizer: FaceRecognizer, people: list[Path], nothing: Pixels, tmp_path: Path
) -> None:
    Image.fromarray(nothing).save(tmp_path / "none.png")
    Image.fromarray(read_photo(people[0])).resize((50, 50)).save(tmp_path / "small.png")
    (tmp_path / "cut.jpg").write_bytes(people[0].read_bytes()[:3000])
    (tmp_path / "good.jpg").write_bytes(people[0].read_bytes())
    found = recognizer.embed_files(tmp_path)
    assert found.paths == (tmp_path / "good.jpg",)
    assert found.embeddings.shape == (1, 128)
    said = {path.name: why for path, why in found.skipped.items()}
    assert set(said) == {"none.png", "small.png", "cut.jpg"}
    assert "24" in said["small.png"]
    for name in ("none.png", "small.png"):
        with pytest.raises(NoFaceError, match=name):
            recognizer.embed([tmp_path / "good.jpg", tmp_path / name])
    with pytest.raises(DataError, match=r"cut\.jpg"):
        recognizer.embed(tmp_path / "cut.jpg")
    (empty,) = recognizer.embed_each(nothing)
    assert (empty.count, empty.embeddings.shape) == (0, (0, 128))


def test_the_digest_names_recognizer_detector_and_alignment(
    models: FaceModels, plain: Recognizer, recognizer: FaceRecognizer, tmp_path: Path
) -> None:
    assert len(recognizer.digest) == 64
    assert recognizer.digest != plain.digest
    again = FaceRecognizer(plain, Faces.load(models.detector, least=50))
    assert again.digest == recognizer.digest  # which faces are used changes no embedding
    (tmp_path / "other.onnx").write_bytes(models.detector.read_bytes() + b"\x12\x00")
    other = FaceRecognizer(plain, Faces.load(tmp_path / "other.onnx"))
    assert other.digest != recognizer.digest
    swapped = Recognizer.from_onnx(models.recognizer, preset="sface", channels="BGR")
    assert FaceRecognizer(swapped, recognizer.faces).digest != recognizer.digest


def test_verify(recognizer: FaceRecognizer, lfw: Path, nothing: Pixels, people: list) -> None:
    first, second = sorted((lfw / SEVERAL[1]).iterdir())[:2]
    other = next((lfw / SEVERAL[2]).iterdir())
    assert recognizer.verify(first, second, threshold=0.37).same
    assert not recognizer.verify(first, other, threshold=0.37).same
    usual = recognizer.verify(first, second)  # by the threshold that SFace's makers published
    assert (usual.threshold, usual.far) == (recognizer.published.threshold, None)
    assert usual.published
    answer = recognizer.verify(people[0], nothing, threshold=0.37)
    assert (answer.same, answer.decided, answer.reason) == (None, False, "no face")
    assert answer.cosine is None
    assert not answer


def test_a_face_at_the_edge_loses_against_a_smaller_one_in_the_middle(
    recognizer: FaceRecognizer, people: list[Path], tmp_path: Path
) -> None:
    photo = np.full((600, 1000, 3), 100, np.uint8)
    photo[175:425, 375:625] = read_photo(people[0])
    photo[300:600, 700:1000] = np.asarray(Image.fromarray(read_photo(people[1])).resize((300, 300)))
    (found,) = recognizer.embed_each(photo)
    assert found.count == len(found.faces) == len(found.embeddings) == 2
    assert found.faces[0].size < found.faces[1].size
    alone = recognizer.embed([people[0], people[1]])
    assert np.argmax(found.embeddings @ alone.T, axis=1).tolist() == [0, 1]
    Image.fromarray(photo).save(tmp_path / "both.png")
    everybody = recognizer.embed_all([tmp_path / "both.png", people[0]])
    assert everybody.paths == (tmp_path / "both.png",) * 2 + (people[0],)
    assert everybody.faces[:2] == found.faces
    answer = recognizer.verify(photo, people[0], threshold=0.37)
    assert answer.same
    assert f"2 faces, and the {found.faces[0]} was taken" in answer.note


def test_the_guide_and_one_match_for_each_face(
    models: FaceModels, people: list[Path], nothing: Pixels, tmp_path: Path, monkeypatch
) -> None:
    """Its program, on a photo with two people in it, the first in the middle."""
    guide = Path(__file__).parents[3] / "docs/guides/recognize.md"
    block = re.compile(r"^```python\n# faces\.py\n(.*?)^```", re.M | re.S)
    (program,) = block.findall(guide.read_text("utf-8"))
    party = np.full((600, 1000, 3), 100, np.uint8)
    party[175:425, 375:625] = read_photo(people[0])
    party[300:550, 700:950] = read_photo(people[1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARCSET_DATA", str(tmp_path))
    Path("faces").mkdir()
    Path("faces", YUNET.name).symlink_to(models.detector)
    adopt(models.recognizer, "sface.onnx", preset="sface")
    shutil.copy(people[0], "anna.jpg")
    Image.fromarray(party).save("party.jpg", quality=95)
    names: dict[str, Any] = {}
    exec(compile(program, guide.name, "exec"), names)
    assert "2 faces" in names["answer"].note
    with Gallery.open("friends.db") as gallery:  # it remembers the network and the detector
        match = gallery.identify("party.jpg", threshold=0.363)
        assert (match.subject, match.faces) == ("anna", 2)
        left, top, width, height = match.box
        assert 375 < left + width / 2 < 625
        assert 175 < top + height / 2 < 425
        matches = gallery.identify_all("party.jpg", threshold=0.363)
        assert [each.subject for each in matches] == ["anna", None]
        assert (matches[0].box, matches[1].faces) == (match.box, 2)
        nobody = gallery.identify(nothing, threshold=0.363)
        assert (nobody.reason, nobody.faces, nobody.box) == ("no face", 0, None)
        assert gallery.identify_all(nothing, threshold=0.363) == []
