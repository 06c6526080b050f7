"""Runs and files data on identities that took no part in training."""

import io
import pickle

import numpy as np
import pytest
from PIL import Image

from arcset.data import Split, load_dataset, make_split
from arcset.data.embeddings import EmbeddingSet, write_embeddings
from arcset.errors import DataError, OptionError
from arcset.evaluation import fold_accuracy, verification
from arcset.evaluation.results import Missing
from arcset.runs.assess import (
    assess_unseen,
    evaluation_data,
    make_run_thresholds,
    measure_pairs,
    measure_run,
    read_evaluation_data,
)
from arcset.runs.model import TrainedRun, embed
from support.random_runs import random_run


@pytest.fixture(scope="module")
def split_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("split") / "split.json"
    names = [str(digit) for digit in range(10)]
    make_split(names, (0.4, 0.3, 0.3), data="mnist-sample").save(path)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory, split_file):
    place = tmp_path_factory.mktemp("run") / "arc"
    made = random_run(place, data="mnist-sample", split=str(split_file), network="mlp", dim=4)
    return TrainedRun.load(made, device="cpu")


def test_a_run_is_data_on_what_was_held_out(run, split_file):
    split = Split.load(split_file)
    data = evaluation_data(run)
    assert data.embeddings.class_names == split.test
    assert data.validation.class_names == split.validation
    assert data.overlap == ()
    data.refuse_overlap()
    assert data.note == ""
    found = data.assess(draws=50)
    assert found.identities == 3
    assert found.cross_fitted  # three digits are too few for thresholds
    assert found.angles.w_inter > 0  # of the four training centers
    assert np.isnan(found.angles.w_ec)  # no class has both a center and test samples


def test_identities_of_training_are_refused_and_marked(run):
    data = evaluation_data(run, part="test")
    assert len(data.overlap) == 4
    with pytest.raises(DataError, match="4 of 4"):
        data.refuse_overlap()
    assert "4 of 4" in data.note
    with pytest.raises(DataError, match="4 of 10"):  # and in another dataset
        evaluation_data(run, "mnist-sample", part="all").refuse_overlap()
    assert not np.isnan(data.assess(intervals=False).angles.w_ec)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"part": "everything"}, "part"), ({"data": "orl", "part": "test"}, "orl")],
)
def test_wrong_parts(run, options, message):
    with pytest.raises(OptionError, match=message):
        evaluation_data(run, **options)


def some_file(path, identities=30, seed=0, dim=8):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(identities), 4)
    means = rng.normal(size=(identities, dim))
    rows = means[labels] + 0.4 * rng.normal(size=(len(labels), dim))
    write_embeddings(path, EmbeddingSet.of(rows.astype(np.float32), [f"p{i}" for i in labels]))
    return path


def test_a_file_with_a_split(tmp_path):
    path = some_file(tmp_path / "e.npz", identities=200)
    split = make_split([f"p{i}" for i in range(200)], (0.2, 0.5, 0.3), data="people")
    data = read_evaluation_data(path, split=split)
    assert data.embeddings.class_names == split.test
    assert data.validation.class_names == split.validation
    assert data.overlap == ()
    found = data.assess(draws=50)
    assert found.identities == len(split.test)
    assert {item.kind for item in found.realized} == {"FAR", "FPIR"}
    assert found.json()["realized"][0]["wanted"] > 0


def test_a_file_with_a_second_one_of_the_same_identities(tmp_path):
    path = some_file(tmp_path / "e.npz")
    found = read_evaluation_data(path, validation=path).assess(intervals=False)
    assert found.thresholds is None
    assert "30 identities are in validation and evaluation alike" in found.missing["thresholds"]


def test_a_file_with_a_second_one_of_another_width(tmp_path):
    one, two = some_file(tmp_path / "a.npz"), some_file(tmp_path / "b.npz", dim=5)
    with pytest.raises(DataError, match=r" 5 .* 8"):
        read_evaluation_data(one, validation=two)


def test_without_identities_held_out_it_says_so(tmp_path):
    alone = TrainedRun.load(random_run(tmp_path / "run"), device="cpu")
    assert assess_unseen(alone) is None
    missing = Missing()
    assert measure_run(alone, missing=missing)["unseen_auc"] is None
    assert "held out" in missing["unseen classes"]
    assert make_run_thresholds(alone).rough


@pytest.fixture(scope="module")
def digits_run(tmp_path_factory):
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


def test_pairs_are_judged_as_evaluation_judges_them(digits_run, file, digits):
    import torch

    images, labels = digits
    pairs, accuracy = measure_pairs(digits_run, file, folds=5)
    embeddings = embed(digits_run.network, torch.from_numpy(images.copy())[:, None])
    rows, same = np.arange(40).reshape(-1, 2), labels[:, 0] == labels[:, 1]
    assert pairs.auc == verification(embeddings, pairs=rows, same=same).auc
    assert accuracy.accuracy == fold_accuracy(embeddings, rows, same, folds=5).accuracy


def test_an_unreadable_image_is_an_error_that_names_it(digits_run, tmp_path):
    path = tmp_path / "bad.bin"
    path.write_bytes(pickle.dumps(([b"no image"] * 4, [True, False]), protocol=2))
    with pytest.raises(DataError, match=r"image 0 .*bad\.bin"):
        measure_pairs(digits_run, path, folds=2)


def test_too_few_pairs_for_the_folds(digits_run, file):
    with pytest.raises(DataError, match=r"20 .*30"):
        measure_pairs(digits_run, file, folds=30)
