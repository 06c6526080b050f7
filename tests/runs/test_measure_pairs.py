import io
import json
import pickle

import numpy as np
import pytest
from PIL import Image

from arcset.data import load_dataset
from arcset.errors import DataError
from arcset.evaluation import fold_accuracy, verification
from arcset.runs.assess import measure_pairs
from arcset.runs.model import TrainedRun, embed
from support.random_runs import random_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "digits"
    run = random_run(place, data="mnist-sample", classes="0-2", dim=4)
    return TrainedRun.load(run, device="cpu")


@pytest.fixture(scope="module")
def digits():
    """Forty images and, of each two that follow each other, whether they show the same digit."""
    test = load_dataset("mnist-sample").test
    rows = np.random.default_rng(0).permutation(len(test))[:40]
    return test.images[rows], test.labels[rows].reshape(-1, 2)


@pytest.fixture
def file(tmp_path, digits):
    images, labels = digits
    contents = []
    for image in images:
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "PNG")
        contents.append(buffer.getvalue())
    same = (labels[:, 0] == labels[:, 1]).tolist()
    path = tmp_path / "digits.bin"
    path.write_bytes(pickle.dumps((contents, same), protocol=2))
    return path


def test_pairs_are_judged_as_evaluation_judges_them(run, file, digits):
    import torch

    images, labels = digits
    found = measure_pairs(run, file, folds=5)
    embeddings = embed(run.network, torch.from_numpy(images.copy())[:, None])
    rows, same = np.arange(40).reshape(-1, 2), labels[:, 0] == labels[:, 1]
    assert found.verification.auc == verification(embeddings, pairs=rows, same=same).auc
    assert found.folds.accuracy == fold_accuracy(embeddings, rows, same, folds=5).accuracy
    assert set(found.json()) == {"file", "verification", "fold_accuracy"}
    json.dumps(found.json())


def test_an_unreadable_image_is_an_error_that_names_it(run, tmp_path):
    path = tmp_path / "bad.bin"
    path.write_bytes(pickle.dumps(([b"no image"] * 4, [True, False]), protocol=2))
    with pytest.raises(DataError, match=r"image 0 .*bad\.bin"):
        measure_pairs(run, path, folds=2)


def test_too_few_pairs_for_the_folds(run, file):
    with pytest.raises(DataError, match=r"20 .*30"):
        measure_pairs(run, file, folds=30)
