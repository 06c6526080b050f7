"""Pictures of findings from real, tiny runs: what they say must be what evaluation says."""

import dataclasses

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from arcset.errors import OptionError
from arcset.evaluation import no_threshold
from arcset.reports import findings
from arcset.reports.style import png
from arcset.reports.view import RunView

RUNS = ("slim", "softmax", "wide", "triplet")


@pytest.fixture
def four(views):
    return [views[name] for name in RUNS]


def words(figure):
    """All text in a figure."""
    found = [text.get_text() for text in figure.findobj(lambda a: hasattr(a, "get_text"))]
    return "\n".join(found)


def right_rows(view):
    logits = view.loss.logits(torch.from_numpy(view.test.embeddings))
    return np.flatnonzero(logits.argmax(1).numpy() == view.test.labels)


@pytest.mark.parametrize("name", ["slim", "wide"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_the_worst_triple_is_shown_with_its_distances(views, name, metric):
    view = views[name]
    rows = right_rows(view)
    found = no_threshold(view.test.embeddings[rows], view.test.labels[rows], metric)
    figure = findings.no_threshold_picture(view, metric)
    shown = words(figure)
    for sample in found.worst:
        assert f"test sample {rows[sample]}" in shown
    assert f"{found.other_distance:.4g}" in shown
    assert ("PCA of 5 dimensions" in shown) == (name == "wide")
    assert png(figure) == png(findings.no_threshold_picture(view, metric))


def test_the_finder_takes_all_samples_where_there_is_no_classifier(views):
    assert len(findings.rightly_named(views["triplet"])) == len(views["triplet"].test.labels)
    assert "no classifier" in words(findings.no_threshold_picture(views["triplet"]))


def test_the_table_has_a_row_per_run(views, four):
    heading, *rows = findings.no_threshold_table(four)
    assert [row[0] for row in rows] == list(RUNS)
    assert all(len(row) == len(heading) for row in rows)
    chosen = right_rows(views["slim"])
    test = views["slim"].test
    found = no_threshold(test.embeddings[chosen], test.labels[chosen], "cosine")
    assert rows[0][4:] == (f"{found.share:.2%}", f"{found.triples_share:.2%}")
    assert "no classifier" in rows[-1][1]


def test_separable_classes_are_said_to_be(views):
    view = RunView(views["triplet"].run.path)
    corners = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]], np.float32)
    view.test = dataclasses.replace(view.test, embeddings=corners[view.test.labels])
    assert "no sample is nearer" in words(findings.no_threshold_picture(view))


def test_confidence_leaves_out_runs_without_a_classifier(views, four):
    figure = findings.confidence_picture(four)
    shown = words(figure)
    assert "triplet" not in shown
    for name in RUNS[:3]:
        found = findings.view_confidence(views[name])
        assert name in shown
        assert f"AUC {found.auc:.2f}" in shown
    assert findings.view_confidence(views["triplet"]) is None
    with pytest.raises(OptionError):
        findings.confidence_picture([views["triplet"]])


def test_confident_mistakes_name_what_they_are_and_are_called(views):
    view = views["softmax"]
    example = findings.view_confidence(view).examples[0]
    probabilities = view.loss.logits(torch.from_numpy(view.unseen.embeddings)).softmax(1)
    assert example.probability == pytest.approx(probabilities.max().item(), rel=1e-5)
    shown = words(findings.confident_mistakes_picture(view, count=5))
    assert f"called {view.test.class_names[example.label]}" in shown
    truth = view.unseen.class_names[view.unseen.labels[example.index]]
    assert f"is {truth}   (#{example.index})" in shown
    with pytest.raises(OptionError, match="triplet"):
        findings.confident_mistakes_picture(views["triplet"])


def test_biases_stand_beside_frequencies(views):
    figure = findings.bias_picture(views["softmax"], views["slim"])
    test = views["softmax"].test
    accuracy = len(right_rows(views["softmax"])) / len(test.labels)
    assert f"accuracy {accuracy:.4f} with bias" in words(figure)
    heights = [bar.get_height() for bar in figure.axes[0].patches][:3]
    learned = views["softmax"].loss.biases.numpy()
    np.testing.assert_allclose(heights, learned - learned.mean(), atol=1e-6)
    with pytest.raises(OptionError, match="slim"):
        findings.bias_picture(views["slim"], views["softmax"])
    with pytest.raises(OptionError, match="softmax"):
        findings.bias_picture(views["softmax"], views["softmax"])


def test_every_picture_has_both_sentences(views):
    pictures = {name for name in findings.__all__ if name.endswith(("_picture", "_table"))}
    assert set(findings.CAPTIONS) == pictures
    for meaning, misleads in findings.CAPTIONS.values():
        assert meaning.endswith(".")
        assert misleads.endswith(".")
    assert isinstance(findings.bias_picture(views["softmax"], views["slim"]), Figure)
