"""What the report says first: how good the run is, what would help, and what it confuses."""

import shutil

import numpy as np
import pytest

from arcset.errors import InputError
from arcset.evaluation import assess
from arcset.reports import RunView
from arcset.reports.training_review import advise, history_picture, verdict_on, worst_confusions
from arcset.reports.view import Embedded


@pytest.fixture
def view(views, tmp_path):
    """A run of three classes of many images, whose record can be rewritten."""
    shutil.copytree(views["arcface"].run.path, tmp_path / "run")
    return RunView(tmp_path / "run")


def record(view, losses, train, test, scores=(), kept=()):
    scores = scores or [None] * len(losses)
    view.run.write_metrics(
        [
            {
                "epoch": epoch,
                "loss": loss,
                "train_accuracy": train,
                "test_accuracy": test,
                **({} if score is None else {"validation": {"map": score}, "kept": epoch in kept}),
            }
            for epoch, (loss, score) in enumerate(zip(losses, scores, strict=True), 1)
        ]
    )


FEW = "Train on more identities: 3 "


@pytest.mark.parametrize(
    ("recorded", "figures"),
    [
        (([1.0, 1.0], 0.995, 0.99), []),
        (([9.0, 5.0], 0.9, 0.9), ["Train for more epochs", "from 9 to 5"]),
        (([9.0, 5.0], 0.995, 0.99), []),  # it has learned what it can
        (([9.0, 5.0], 0.3, 0.3), ["only 30.0 %", "after 2 epochs", "smaller margin than"]),
        (([1.0, 1.0], 0.999, 0.7), ["99.9 %", "70.0 %"]),
        (
            ([1.0] * 6, 0.995, 0.99, [0.5, 0.6, 0.5, 0.4, 0.4, 0.3], [2]),
            ["after epoch 2 of 6", "0.600", "0.300"],
        ),
        (([1.0] * 6, 0.995, 0.99, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [6]), []),
    ],
)
def test_every_advice_names_its_figure(view, recorded, figures) -> None:
    record(view, *recorded)
    said = advise(view)
    few = [line for line in said if line.startswith(FEW)]
    assert len(few) == 1  # and many images of each
    others = [line for line in said if line not in few]
    assert len(others) == bool(figures)
    assert all(figure in others[0] for figure in figures)


def test_a_scale_that_leaves_nothing_to_learn_is_named(views, tmp_path) -> None:
    run = views["arcface"].run
    shutil.copytree(run.path, tmp_path / "run")
    path = tmp_path / "run" / "config.toml"
    path.write_text(path.read_text().replace("scale = 8.0", "scale = 0.2"))
    assert "with scale 0.2 and 3 classes" in advise(RunView(tmp_path / "run"))[0]


def test_without_a_record_nothing_is_said_of_training(view) -> None:
    view.run.write_metrics([])
    assert [line.startswith(FEW) for line in advise(view)] == [True]
    with pytest.raises(InputError):
        history_picture([view])


def test_the_history_shows_what_was_recorded_and_marks_the_kept_epoch(view) -> None:
    record(view, [3.0, 2.0, 2.5], 0.9, 0.8, [0.5, 0.7, 0.6], [1, 2])
    left, right = history_picture([view]).axes
    assert left.lines[0].get_xydata().tolist() == [[1, 3.0], [2, 2.0], [3, 2.5]]
    drawn = {line.get_label(): line.get_ydata() for line in right.lines}
    assert list(drawn["validation: MAP@R"]) == [0.5, 0.7, 0.6]
    assert list(drawn["training images"]) == [0.9] * 3
    assert [text.get_text() for text in right.texts] == ["kept: 2"]


def test_the_verdict_is_the_equal_error_rate_with_its_interval(view) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(30), 4)
    rows = rng.normal(size=(30, 8))[labels] + 0.5 * rng.normal(size=(120, 8))
    found = assess(rows, labels, draws=50)
    low, high = found.verification.interval("eer")
    text = verdict_on(view, found)
    assert f"{100 * found.verification.eer:.1f} %" in text
    assert f"{100 * low:.1f} to {100 * high:.1f} %" in text
    assert "guessing" not in text
    guessed = assess(rng.normal(size=(120, 8)), labels, draws=50)
    assert "cannot be told from guessing" in verdict_on(view, guessed)
    assert "not known" in verdict_on(view, None)


def test_the_worst_confusions_are_those_of_a_plain_search() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(12), 5)
    rows = rng.normal(size=(60, 4))
    names = tuple("abcdefghijkl")
    images = rng.integers(0, 255, (60, 9, 7), dtype=np.uint8)
    sample = Embedded(rows.astype(np.float32), labels, names, images, np.arange(60))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = unit @ unit.T
    pairs = [(i, j) for i in range(60) for j in range(i)]
    alike = max(cosines[i, j] for i, j in pairs if labels[i] != labels[j])
    unlike = {
        c: min(cosines[i, j] for i, j in pairs if labels[i] == labels[j] == c) for c in range(12)
    }
    different, same = worst_confusions(sample, threshold=0.0)
    assert different[0].cosine == pytest.approx(alike, abs=1e-5)
    assert [pair.cosine for pair in same] == pytest.approx(sorted(unlike.values())[:6], abs=1e-5)
    assert all(pair.names[0] != pair.names[1] for pair in different)
    assert len({frozenset(pair.names) for pair in different}) == len(different) == 6
    for pair, is_same in [(each, False) for each in different] + [(each, True) for each in same]:
        assert pair.is_wrong == ((pair.cosine >= 0) != is_same)
        assert pair.pictures[0].src.startswith("data:image/")


def test_one_image_of_each_class_has_no_fellow() -> None:
    images = np.zeros((3, 4, 4), np.uint8)
    sample = Embedded(
        np.eye(3, dtype=np.float32), np.arange(3), ("a", "b", "c"), images, np.arange(3)
    )
    different, same = worst_confusions(sample)
    assert (len(different), same) == (2, [])
    assert different[0].decision == ""
