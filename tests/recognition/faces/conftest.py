"""A real detector, a real recognizer and real faces; without them these tests are skipped."""

from pathlib import Path

import numpy as np
import pytest

from arcset.data.named.fetch import data_folders
from arcset.recognition.faces import Faces, Pixels, read_photo
from support.face_models import FaceModels, NotToBeHadError, face_models


@pytest.fixture(scope="session")
def models() -> FaceModels:
    pytest.importorskip("cv2", reason="OpenCV is not installed: pip install 'arcset[faces]'")
    try:
        return face_models()
    except NotToBeHadError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def faces(models: FaceModels) -> Faces:
    return Faces.load(models.detector)


@pytest.fixture(scope="session")
def lfw() -> Path:
    for folder in data_folders("lfw-sample"):
        if folder.is_dir():
            return folder
    pytest.skip("lfw-sample is not here: set ARCSET_DATA to a folder that holds lfw-sample/")


@pytest.fixture(scope="session")
def people(lfw: Path) -> list[Path]:
    """A photo each of eight people, with one face in it."""
    names = [
        "Abdullah_Ahmad_Badawi",
        "Adrianna_Zuzic",
        "Amanda_Plumer",
        "Andrew_Caldecott",
        "Anna_Chicherova",
        "Bertrand_Delanoe",
        "Ben_Cohen",
        "Adriana_Perez_Navarro",
    ]
    return [lfw / name / f"{name}_0001.jpg" for name in names]


@pytest.fixture(scope="session")
def photo(people: list[Path]) -> Pixels:
    return read_photo(people[0])


@pytest.fixture(scope="session")
def nothing() -> Pixels:
    """Noise, smoothed: there is something to see, and no face."""
    noise = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)
    return np.kron(noise, np.ones((8, 8, 1), np.uint8))
