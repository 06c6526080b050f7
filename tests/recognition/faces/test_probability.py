"""The probability of SFace's cosines beside the counts of the photos that it was made from."""

from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from arcset.evaluation import make_thresholds
from arcset.evaluation.pairs import pair_cosines
from arcset.recognition import Recognizer
from arcset.recognition.decisions import WorkingPoint, answer
from arcset.recognition.faces import FaceRecognizer, Faces
from support.face_models import FaceModels

GALLERY = 15


def shares(count: int, total: int) -> np.ndarray:
    """The 99 % interval of a share."""
    return np.array(binomtest(count, total).proportion_ci(0.99, "wilson"))


def test_near_the_usual_threshold_probabilities_are_what_the_photos_show(
    models: FaceModels, faces: Faces, lfw: Path
) -> None:
    """A gallery of 15 that is asked with OpenCV's threshold, 0.363, takes many for known whom the
    probability must neither call sure nor nearly excluded."""
    folders = [sorted(folder.iterdir()) for folder in sorted(lfw.iterdir()) if folder.is_dir()]
    people = [paths[:4] for paths in folders if len(paths) > 1]
    labels = np.repeat(np.arange(len(people)), [len(paths) for paths in people])
    recognizer = FaceRecognizer(Recognizer.from_onnx(models.recognizer, preset="sface"), faces)
    embeddings = recognizer.embed([path for paths in people for path in paths])
    thresholds = make_thresholds(embeddings, labels)
    cosines, same, _ = pair_cosines(embeddings, labels)
    strangers = np.median(cosines[~same])
    for cosine in (0.364, 0.40, 0.45, 0.50):
        near = abs(cosines - cosine) < 0.04
        genuine = shares(int((near & same).sum()), int(same.sum()))
        impostor = shares(int((near & ~same).sum()), int((~same).sum()))
        low, high = genuine / (genuine + GALLERY * impostor[::-1])
        found = answer(
            [str(number) for number in range(GALLERY)],
            [cosine, *[strangers] * (GALLERY - 1)],
            point=WorkingPoint.by_hand(0.363),
            thresholds=thresholds,
            subjects=GALLERY,
        )
        assert found.subject == "0"
        assert found.probability is not None
        assert low - 0.02 < found.probability < high + 0.02
        assert bool(found.note) == (found.probability < 0.5)
        if cosine > 0.44:
            assert found.probability > 0.8
