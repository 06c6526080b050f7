from pathlib import Path

import numpy as np
import pytest

from arcset.errors import InputError
from arcset.recognition.faces import POINTS, Faces, Pixels, align, read_photo, similarity
from support.face_models import FaceModels

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")


def umeyama(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """As in the paper, by singular values, for any dimension."""
    middle, goal = source.mean(0), target.mean(0)
    covariance = (target - goal).T @ (source - middle) / len(source)
    left, values, right = np.linalg.svd(covariance)
    signs = np.ones(source.shape[1])
    if np.linalg.det(left) * np.linalg.det(right) < 0:
        signs[-1] = -1
    turn = left @ np.diag(signs) @ right
    scale = (values * signs).sum() / ((source - middle) ** 2).sum(1).mean()
    return np.column_stack((scale * turn, goal - scale * turn @ middle))


def test_the_best_similarity_as_the_paper_finds_it() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        source, target = rng.normal(size=(2, int(rng.integers(2, 9)), 2)) * 50
        if seed % 2:  # a mirrored face is not mirrored back
            target = source * [-1, 1] + rng.normal(size=source.shape)
        assert np.allclose(similarity(source, target), umeyama(source, target), atol=1e-9)


def test_points_that_no_face_has() -> None:
    for points in (np.zeros((5, 2)), np.full((5, 2), np.nan), np.ones((4, 2)), np.ones(10)):
        with pytest.raises(InputError, match="points"):
            align(np.zeros((50, 50, 3), np.uint8), points)


def test_as_opencv_aligns(models: FaceModels, faces: Faces, people: list[Path]) -> None:
    """OpenCV's own recognizer aligns to the same points, with its own arithmetic."""
    recognizer = cv2.FaceRecognizerSF.create(str(models.recognizer), "")
    for path in people:
        photo = read_photo(path)
        face = faces.find_in(photo).faces[0]
        row = np.array([*face.box, *np.ravel(face.points), face.score], np.float32)
        expected = recognizer.alignCrop(photo, row[None])
        difference = np.abs(align(photo, face.points).astype(int) - expected)
        assert difference.max() <= 2
        assert difference.mean() < 0.01


def test_all_pixels_of_a_large_face_count(faces: Faces, photo: Pixels) -> None:
    """Noise in a photo eight times as fine is averaged away, where picking pixels would keep it."""
    points = np.array(faces.find_in(photo).faces[0].points)
    clean = np.kron(photo // 2 + 64, np.ones((8, 8, 1), np.uint8))
    noisy = clean + np.random.default_rng(0).integers(-60, 61, clean.shape, np.int8).view(np.uint8)
    places = (points + 0.5) * 8 - 0.5
    matrix = similarity(places, POINTS)
    picked = [cv2.warpAffine(image, matrix, (112, 112)).astype(int) for image in (noisy, clean)]
    averaged = [align(image, places).astype(int) for image in (noisy, clean)]
    assert np.abs(averaged[0] - averaged[1]).mean() < 0.3 * np.abs(picked[0] - picked[1]).mean()


@pytest.mark.parametrize("finer", [1, 4])
def test_beyond_the_photo_it_is_black(finer: int) -> None:
    white = np.full((112 * finer, 56 * finer, 3), 255, np.uint8)  # the right half is missing
    found = align(white, (POINTS + 0.5) * finer - 0.5)
    assert (found[:, :55] == 255).all()
    assert (found[:, 57:] == 0).all()
    for away in (5000, -5000):
        assert not align(white, POINTS * 4 + away).any()
