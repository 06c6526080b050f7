"""Still pictures of small but real runs."""

import dataclasses
import itertools
import math
import shutil

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from arcset.data import ImageSet, load_dataset
from arcset.errors import InputError, OptionError
from arcset.evaluation import no_threshold
from arcset.losses import build_loss
from arcset.margins import MARGINS
from arcset.reports.embedding_plot import (
    Board,
    Projection,
    Scene,
    border_angles,
    border_arcs,
    embedding_picture,
)
from arcset.reports.stills import (
    angle_picture,
    bias_picture,
    confidence_picture,
    confident_mistakes_picture,
    margin_picture,
    no_threshold_picture,
    no_threshold_table,
    roc_picture,
    sheet_picture,
    view_confidence,
)
from arcset.reports.style import class_colour, png, save, style
from arcset.reports.view import RunView


def texts(figure: Figure) -> str:
    """Everything that stands in the picture."""
    found = figure.findobj(lambda artist: hasattr(artist, "get_text"))
    return "\n".join(text.get_text() for text in found)


def collection(axes, *, hollow):
    """The samples: the collections with one offset each, known ones first."""
    found = [c for c in axes.collections if type(c).__name__ == "PathCollection"]
    return found[int(hollow)]


@pytest.mark.parametrize("names", [("softmax", "arcface", "triplet"), ("space", "sphere")])
def test_the_same_runs_give_the_same_bytes(views, names, tmp_path):
    for copy in ("a.png", "b.png"):
        fresh = [RunView(views[name].run.path) for name in names]
        save(embedding_picture(fresh), tmp_path / copy)
    first, second = ((tmp_path / copy).read_bytes() for copy in ("a.png", "b.png"))
    assert first == second
    assert first.startswith(b"\x89PNG")
    assert b"tIME" not in first


def test_losses_of_the_same_kind_share_their_axes(views):
    names = ("softmax", "slim", "arcface", "normface")
    plane, plane2, circle, circle2 = embedding_picture([views[name] for name in names]).axes
    assert plane.get_xlim() == plane2.get_xlim()
    assert plane.get_ylim() == plane2.get_ylim()
    assert circle.get_xlim() == circle2.get_xlim()
    for axes, name in ((plane, "softmax"), (plane2, "slim")):
        points = np.concatenate((views[name].test.embeddings, views[name].unseen.embeddings))
        assert (points[:, 0] > axes.get_xlim()[0]).all()
        assert (points[:, 1] < axes.get_ylim()[1]).all()
    rows = angle_picture([views["softmax"], views["arcface"]]).axes
    assert rows[0].get_ylim() == rows[1].get_ylim()


@pytest.mark.parametrize("name", ["softmax", "arcface", "sphere", "wide"])
def test_known_are_filled_and_unseen_are_hollow(views, name):
    view = views[name]
    axes = embedding_picture([view]).axes[0]
    known, unseen = (collection(axes, hollow=hollow) for hollow in (False, True))
    assert len(known.get_offsets()) == len(view.test.labels)
    assert len(unseen.get_offsets()) == len(view.unseen.labels)
    assert len(known.get_facecolor()) == len(view.test.labels)
    assert len(unseen.get_facecolor()) == 0
    seen = {tuple(colour[:3]) for colour in known.get_facecolor()}
    assert seen == {to_rgba(class_colour(number))[:3] for number in range(3)}


def on_both_sides(loss, places, across):
    """The classes that the loss names a little to either side of the border."""
    sides = [torch.tensor(places + step * across).float() for step in (-1e-3, 1e-3)]
    return [loss.logits(side).argmax(dim=1) for side in sides]


def test_borders_with_biases_on_circle_and_sphere():
    for dim in (2, 3):
        torch.manual_seed(0)
        loss = build_loss("arcface", dim=dim, classes=4, scale=8.0, bias=True)
        with torch.no_grad():
            loss.head.bias.copy_(torch.tensor([1.0, -0.5, 0.2, 0.0]))
        centers, biases = loss.centers.numpy(), loss.biases.numpy() / 8
        if dim == 2:
            angles = border_angles(centers, biases)
            places = np.stack((np.cos(angles), np.sin(angles)), axis=1)
            across = np.stack((-places[:, 1], places[:, 0]), axis=1)
        else:
            arcs = border_arcs(centers, biases)
            places = arcs[:, 0]
            across = np.cross(places, arcs[:, 1] - arcs[:, 0])
            across /= np.linalg.norm(across, axis=1, keepdims=True)
        a, b = on_both_sides(loss, places, across)
        assert len(a)
        assert (a != b).all()


def test_more_than_three_dimensions_say_that_they_are_a_shadow(views):
    embeddings = views["wide"].test.embeddings
    variances = np.sort(np.linalg.eigvalsh(np.cov(embeddings.T)))[::-1]
    share = variances[:2].sum() / variances.sum()
    assert Projection.fit(embeddings).share == pytest.approx(share, rel=1e-3)
    figure = embedding_picture([views["wide"]])
    assert f"PCA of 5 dimensions: {share:.0%}" in texts(figure)
    assert "PCA" not in texts(embedding_picture([views["arcface"]]))


def many(kind: str, classes: int = 32) -> Scene:
    """Names of 32 identities, whose centers point anywhere."""
    dim = 3 if kind in ("sphere", "space") else 2
    centers = np.random.default_rng(0).normal(size=(classes, dim))
    if kind in ("circle", "sphere"):
        centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    names = tuple(f"identity {number}" for number in range(classes))
    labels = np.arange(classes)
    nobody = np.empty((0, dim)), np.empty(0, np.int64), ()
    return Scene(
        kind, centers, labels, names, *nobody, centers, None, kind == "circle", np.zeros(dim)
    )


@pytest.mark.parametrize("kind", ["circle", "sphere", "plane", "space"])
@style()
def test_names_of_many_classes_do_not_overlap(kind):
    scene = many(kind)
    board = Board([scene], ["many"], 1, width=5.6)
    board.show([scene], 0.6)
    shown = [text for text in board.panels[0].names if text.get_visible()]
    assert len(shown) > 8
    boxes = [text.get_window_extent() for text in shown]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    listed = {text.get_text() for row in board.figure.legends for text in row.get_texts()}
    assert set(scene.names) <= listed
    for row in board.figure.legends:
        box = row.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= board.figure.bbox.width


def test_too_many_classes_are_counted():
    board = Board([many("circle", 100)], ["too many"], 1)
    assert "100 known classes" in texts(board.figure)
    assert not board.figure.legends


def test_margin_picture_shows_every_margin_and_fallback():
    left, right = margin_picture().axes
    words = {word.strip(",") for line in left.lines for word in line.get_label().split()}
    assert set(MARGINS.names()) <= words
    assert len(left.lines) < len(MARGINS.names()), "equal curves are drawn once"
    assert {"default", "linear", "easy", "none"} <= {line.get_label() for line in right.lines}
    normface = next(line for line in left.lines if "normface" in line.get_label())
    degrees, values = normface.get_data()
    assert values == pytest.approx(np.cos(np.radians(degrees)))


def test_margins_of_runs_are_drawn_as_they_were_trained(views):
    left, _ = margin_picture([views["softmax"], views["arcface"]]).axes
    degrees, values = left.lines[-1].get_data()
    margin = views["arcface"].loss.margin
    assert len(left.lines) == 2, "softmax has none, normface stands beside"
    assert values[degrees == 90] == pytest.approx(math.cos(math.pi / 2 + margin.margin))
    assert f"arcface {margin.margin:g}" in left.lines[-1].get_label()


def test_runs_without_centers_have_no_angles(views):
    assert len(angle_picture([views["softmax"], views["triplet"]]).axes) == 1
    with pytest.raises(InputError, match="triplet"):
        angle_picture([views["triplet"]])


def test_roc_shows_curves_with_their_auc(views):
    figure = roc_picture([views["arcface"], views["softmax"]])
    assert "softmax, AUC 0." in texts(figure)
    curve = figure.axes[0].lines[0].get_ydata()
    assert curve[-1] == 1.0
    assert (np.diff(curve) >= 0).all()


def test_sheet_shows_each_class_in_its_row():
    images = load_dataset("mnist-sample").test
    axes = sheet_picture(images).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == list(images.class_names)
    sheet = axes.images[0].get_array()
    assert sheet.shape == (10 * 30 - 2, 8 * 30 - 2)
    assert (sheet[60:88, 0:28] == images.images[images.labels == 2][0]).all()
    names = tuple(f"name {k}" for k in range(40))
    many = ImageSet(np.zeros((40, 4, 6, 3), np.uint8), np.arange(40), names)
    assert "20 of 40 classes" in texts(sheet_picture(many))


def test_pictures_of_runs_that_do_not_fit_are_refused(views):
    with pytest.raises(OptionError, match=r"arcface.*0-2.*other.*0-3"):
        embedding_picture([views["arcface"], views["other"]])
    with pytest.raises(OptionError):
        roc_picture([])


def test_runs_of_the_same_name_are_told_apart(views, tmp_path):
    shutil.copytree(views["softmax"].run.path, tmp_path / "more" / "softmax")
    twice = [views["softmax"], RunView(tmp_path / "more" / "softmax")]
    names = [axes.get_title() for axes in embedding_picture(twice).axes]
    assert names == [f"{twice[0].run.path.parent.name}/softmax", "more/softmax"]
    assert len(angle_picture(twice).axes) == 2
    again = [axes.get_title() for axes in embedding_picture([twice[1]] * 2).axes]
    assert again == ["more/softmax (1)", "more/softmax (2)"]


RUNS = ("slim", "softmax", "wide", "triplet")


@pytest.fixture
def four(views):
    return [views[name] for name in RUNS]


def right_rows(view):
    logits = view.loss.logits(torch.from_numpy(view.test.embeddings))
    return np.flatnonzero(logits.argmax(1).numpy() == view.test.labels)


@pytest.mark.parametrize("name", ["slim", "wide"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_the_worst_triple_is_shown_with_its_distances(views, name, metric):
    view = views[name]
    rows = right_rows(view)
    found = no_threshold(view.test.embeddings[rows], view.test.labels[rows], metric)
    figure = no_threshold_picture([view], metric)
    shown = texts(figure)
    for sample in found.worst:
        assert f"test sample {rows[sample]}" in shown
    assert f"{found.other_distance:.4g}" in shown
    assert ("PCA of 5 dimensions" in shown) == (name == "wide")
    assert png(figure) == png(no_threshold_picture([view], metric))


def test_the_table_has_a_row_per_run(views, four):
    heading, *rows = no_threshold_table(four)
    assert [row[0] for row in rows] == list(RUNS)
    assert all(len(row) == len(heading) for row in rows)
    chosen, test = right_rows(views["slim"]), views["slim"].test
    found = no_threshold(test.embeddings[chosen], test.labels[chosen], "cosine")
    assert rows[0][4:] == (f"{found.share:.2%}", f"{found.triples_share:.2%}")
    assert f"{len(views['triplet'].test.labels):,} (all: there is no classifier" in rows[-1][1]


def test_separable_classes_are_said_to_be(views):
    view = RunView(views["triplet"].run.path)
    corners = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]], np.float32)
    view.test = dataclasses.replace(view.test, embeddings=corners[view.test.labels])
    shown = texts(no_threshold_picture([view]))
    assert "no sample is nearer" in shown
    assert "no classifier" in shown


def test_confidence_leaves_out_runs_without_a_classifier(views, four):
    figure = confidence_picture(four)
    shown = texts(figure)
    assert "triplet" not in shown
    for name in RUNS[:3]:
        found = view_confidence(views[name])
        assert name in shown
        assert f"AUC {found.auc:.2f}" in shown
    assert view_confidence(views["triplet"]) is None
    with pytest.raises(InputError):
        confidence_picture([views["triplet"]])


def test_confident_mistakes_name_what_they_are_and_are_called(views):
    view = views["softmax"]
    example = view_confidence(view).examples[0]
    probabilities = view.loss.logits(torch.from_numpy(view.unseen.embeddings)).softmax(1)
    assert example.probability == pytest.approx(probabilities.max().item(), rel=1e-5)
    shown = texts(confident_mistakes_picture([view]))
    assert f"called {view.test.class_names[example.label]}" in shown
    truth = view.unseen.class_names[view.unseen.labels[example.index]]
    assert f"is {truth}   (#{example.index})" in shown
    with pytest.raises(InputError):
        confident_mistakes_picture([views["triplet"]])


def test_biases_stand_beside_frequencies(views):
    figure = bias_picture([views["softmax"], views["slim"]])
    test = views["softmax"].test
    accuracy = len(right_rows(views["softmax"])) / len(test.labels)
    assert f"accuracy {accuracy:.4f} with bias" in texts(figure)
    heights = [bar.get_height() for bar in figure.axes[0].patches][:3]
    learned = views["softmax"].loss.biases.numpy()
    np.testing.assert_allclose(heights, learned - learned.mean(), atol=1e-6)
    with pytest.raises(InputError):
        bias_picture([views["softmax"], views["triplet"]])
