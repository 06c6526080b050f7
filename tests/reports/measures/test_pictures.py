"""Every picture of a measure, from real results: what it shows, and that nothing is cut off."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import ndtr

from arcset.errors import OptionError
from arcset.evaluation import verification
from arcset.evaluation.bootstrap import Difference, paired
from arcset.evaluation.identification import identification
from arcset.evaluation.results import Interval
from arcset.evaluation.retrieval import retrieval
from arcset.reports.measures import (
    angles_picture,
    difference_picture,
    few_shot_picture,
    identification_picture,
    reliability_picture,
    retrieval_picture,
    threshold_picture,
    verification_picture,
)
from arcset.reports.measures.look import looks
from arcset.reports.style import png

from .conftest import NAMES, Measured, embeddings, judged, made

pytestmark = pytest.mark.filterwarnings("error")
LONG = pytest.mark.long

Draw = Callable[[Figure], bytes]
PICTURES: dict[str, Callable[..., Figure]] = {
    "verification": verification_picture,
    "identification": identification_picture,
    "retrieval": retrieval_picture,
    "few_shot": few_shot_picture,
}


def parts(measured: dict[str, Measured], name: str, count: int = 8) -> dict[str, Any]:
    return {label: getattr(found, name) for label, found in list(measured.items())[:count]}


def marks(axes: Axes) -> list[tuple[float, float]]:
    """Where single marks were drawn."""
    lines = [line for line in axes.lines if len(line.get_xdata()) == 1]
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in lines]


def bars(axes: Axes) -> list[tuple[float, float]]:
    """From where to where upright bars reach."""
    paths = [path for found in axes.collections for path in found.get_paths()]
    return [tuple(path.vertices[:, 1]) for path in paths if len(path.vertices) == 2]


def texts(figure: Figure) -> str:
    """Everything that stands in a picture, keys included."""
    keys = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    found = [*figure.texts, *(text for key in keys if key for text in key.get_texts())]
    for axes in figure.axes:
        found += [*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label]
        found += [*axes.get_yticklabels(), *axes.get_xticklabels()]
    return "\n".join(text.get_text() for text in found)


MODELS = [pytest.param(1, marks=LONG), 2, pytest.param(8, marks=LONG)]


@pytest.mark.parametrize("count", [pytest.param(1, marks=LONG), pytest.param(2, marks=LONG), 8])
@pytest.mark.parametrize("name", PICTURES)
def test_nothing_is_cut_off(
    measured: dict[str, Measured], name: str, count: int, drawn: Draw
) -> None:
    figure = PICTURES[name](parts(measured, name, count))
    drawn(figure)
    assert "arcface" in texts(figure)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "few_shot" else LONG) for name in PICTURES]
)
def test_the_same_results_give_the_same_bytes(measured: dict[str, Measured], name: str) -> None:
    first, second = (png(PICTURES[name](parts(measured, name, 1))) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("count", MODELS)
def test_angles_of_any_number_of_models(
    measured: dict[str, Measured], count: int, drawn: Draw
) -> None:
    figure = angles_picture(*(parts(measured, name, count) for name in ("own", "other", "angles")))
    drawn(figure)
    assert len(figure.axes) == count + 1
    averages = figure.axes[-1]
    expected = measured["arcface"].angles
    assert expected.intra in [y for _, y in marks(averages)]
    assert any(pair == pytest.approx(expected.interval("intra")) for pair in bars(averages))


@pytest.mark.parametrize("name", PICTURES)
def test_results_without_intervals(bare: Measured, name: str, drawn: Draw) -> None:
    figure = PICTURES[name]({"bare": getattr(bare, name)})
    drawn(figure)
    assert all(not bars(axes) for axes in figure.axes)


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_to_draw_is_refused(name: str) -> None:
    with pytest.raises(OptionError):
        PICTURES[name]({})


def test_a_model_looks_the_same_in_every_picture(measured: dict[str, Measured]) -> None:
    every = list(measured)
    some = {label: found.few_shot for label, found in list(measured.items())[3:5]}
    expected = {looks(every)[label].colour for label in some}
    figure = few_shot_picture(some, among=every)
    drawn = {line.get_color() for line in figure.axes[0].lines if line.get_marker() != "None"}
    assert drawn == expected
    assert len({look.colour for look in looks(every).values()}) == 8


def test_names_stay_as_they_are(measured: dict[str, Measured]) -> None:
    shown = texts(verification_picture(parts(measured, "verification")))
    assert "_hidden: AUC" in shown
    assert r"costs \$5 or \$6: AUC" in shown  # as matplotlib must be told
    assert "two lines: AUC" in shown
    assert "runs/of/a/very" in shown
    assert "seed-7: AUC" in shown
    assert "…" in shown


def test_rates_and_intervals_of_verification(measured: dict[str, Measured]) -> None:
    result = measured["softmax"].verification
    left, right = verification_picture({"softmax": result}).axes
    for rate, value in result.tar_at_far.items():
        if math.isnan(value):
            assert rate not in [pytest.approx(x) for x, _ in marks(left)]
            continue
        assert (pytest.approx(rate), value) in marks(left)
        assert any(
            pair == pytest.approx(result.interval("tar_at_far", rate)) for pair in bars(left)
        )
    on_axes = [(ndtr(x), ndtr(y)) for x, y in marks(right)]
    assert (pytest.approx(result.eer), pytest.approx(result.eer)) in on_axes
    assert (pytest.approx(0.01), pytest.approx(1 - result.tar_at_far[0.01])) in on_axes
    assert left.get_xlim()[0] < 1 / result.impostor <= left.lines[0].get_xdata()[0]


def test_verification_without_errors_and_by_guessing(drawn: Draw) -> None:
    rows, labels = embeddings(0.0)
    perfect = verification(rows, labels, intervals=True, draws=20)
    assert perfect.eer == 0
    figure = verification_picture({"perfect": perfect})
    drawn(figure)
    assert "no errors" in texts(figure)
    guessing = verification(rows, np.random.default_rng(0).permutation(labels))
    drawn(verification_picture({"perfect": perfect, "guessing": guessing}))
    drawn(verification_picture({"guessing": guessing}))


def test_verification_of_the_smallest_set(drawn: Draw) -> None:
    result = verification([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], [0, 0, 1], fars=[0.1, 1.0])
    assert math.isnan(result.tar_at_far[0.1])
    drawn(verification_picture({"small": result}))


def test_identification_says_what_is_in_the_gallery(measured: dict[str, Measured]) -> None:
    result = measured["softmax"].identification
    figure = identification_picture({"softmax": result})
    assert f"gallery: {result.subjects} subjects, {result.samples} samples" in texts(figure)
    left, right = figure.axes
    for rank, value in result.rank.items():
        assert (pytest.approx(rank), value) in marks(left)
    expected = (pytest.approx(0.1), pytest.approx(1 - result.dir_at_fpir[0.1]))
    assert expected in marks(right)


def test_galleries_that_differ_are_said_beside_each_model(drawn: Draw) -> None:
    rows, labels = embeddings(0.2)
    first = identification(rows[::5], labels[::5], rows[1::5], labels[1::5])
    second = identification(rows[:50:5], labels[:50:5], rows[1::5], labels[1::5])
    figure = identification_picture({"all enrolled": first, "ten": second})
    drawn(figure)
    assert "all enrolled: gallery: 40 subjects" in texts(figure)
    assert "ten: gallery: 10 subjects" in texts(figure)


@pytest.mark.parametrize("unknown", [True, False])
def test_identification_with_one_kind_of_probes(unknown: bool, drawn: Draw) -> None:
    rows, labels = embeddings(0.2)
    gallery = slice(0, 100)
    probes = slice(100, 200) if unknown else slice(0, 100)
    result = identification(
        rows[gallery], labels[gallery], rows[probes], labels[probes], intervals=True, draws=10
    )
    assert (result.mated, result.unmated) == ((0, 100) if unknown else (100, 0))
    figure = identification_picture({"one kind": result})
    drawn(figure)
    assert "needs probes of enrolled" in texts(figure)


def test_identification_without_errors(drawn: Draw) -> None:
    rows, labels = embeddings(0.0)
    result = identification(rows[:100], labels[:100], rows, labels, intervals=True, draws=10)
    assert result.dir_at_fpir[0.1] == 1
    figure = identification_picture({"perfect": result})
    drawn(figure)
    assert "no enrolled probe is missed" in texts(figure)


def test_identification_among_many_subjects_has_a_logarithmic_axis(
    measured: dict[str, Measured],
) -> None:
    rows, labels = embeddings(0.2, identities=30)
    many = identification(rows[::5], labels[::5], rows[1::5], labels[1::5])
    assert identification_picture({"many": many}).axes[0].get_xscale() == "log"
    few = measured["softmax"].identification
    assert few.subjects == 20
    assert identification_picture({"few": few}).axes[0].get_xscale() == "linear"


def test_retrieval_beyond_the_references(drawn: Draw) -> None:
    rows, labels = embeddings(0.2, identities=3, each=2)
    result = retrieval(rows, labels, ks=(1, 5, 10), intervals=True, draws=10)
    assert math.isnan(result.recall_at[10])
    figure = retrieval_picture({"few": result})
    drawn(figure)
    assert "6 queries" in texts(figure)
    assert len(marks(figure.axes[0])) == 2


def test_few_shot_says_its_figures(measured: dict[str, Measured], drawn: Draw) -> None:
    result = measured["softmax"].few_shot
    figure = few_shot_picture({"softmax": result})
    drawn(figure)
    low, high = result.interval("accuracy")
    assert f"{100 * result.accuracy:.1f} % [{100 * low:.1f}, {100 * high:.1f}]" in texts(figure)
    assert "10-way 1-shot, 50 episodes" in texts(figure)


def test_angles_without_centers_or_without_samples(bare: Measured, drawn: Draw) -> None:
    figure = angles_picture({"bare": bare.own}, {"bare": bare.other}, {"bare": bare.angles})
    drawn(figure)
    assert texts(figure).count("no centers") == 2
    drawn(angles_picture({}, {}, {"bare": bare.angles}))
    drawn(angles_picture({"bare": bare.own}, {"bare": bare.other}, {}))
    none = np.full(4, math.nan)
    drawn(angles_picture({"bare": bare.own[:4]}, {"bare": none}, {}))
    with pytest.raises(OptionError):
        angles_picture({"bare": bare.own}, {}, {})
    with pytest.raises(OptionError):
        angles_picture({}, {}, {})


def test_differences_are_coloured_only_where_they_are_shown(drawn: Draw) -> None:
    rows = [
        Difference("eer", 0.02, Interval(0.01, 0.03)),
        Difference("auc", -0.02, Interval(-0.03, -0.01)),
        Difference("rank[1]", 0.01, Interval(-0.01, 0.03)),
        Difference("tar_at_far[1e-05]", math.nan, Interval(math.nan, math.nan)),
        Difference("recall_at[1]", 0.04, Interval(math.nan, math.nan), why="2 are too few"),
        Difference("intra", 3.0, Interval(2.0, 4.0), degrees=True),
    ]
    figure = difference_picture({"new against old": rows})
    drawn(figure)
    shares, angles = figure.axes
    colours = {
        round(float(line.get_xdata()[0]), 6): line.get_color()
        for line in shares.lines
        if len(line.get_xdata()) == 1
    }
    assert len({colours[2.0], colours[-2.0], colours[1.0]}) == 3
    assert colours[4.0] == colours[1.0]
    assert sorted(colours) == [-2.0, 1.0, 2.0, 4.0]
    assert marks(angles) == [(3.0, 0.0)]
    shown = texts(figure)
    assert "not defined here" in shown
    assert "TAR at FAR 0.001 %" in shown
    assert "+2.0 [+1.0, +3.0]" in shown
    assert "+4.0 (too few to tell)" in shown


def test_differences_of_real_results(measured: dict[str, Measured], drawn: Draw) -> None:
    first, *others = list(measured)[:4]
    found = {
        f"{first} against {label}": [
            paired(measured[first].retrieval, measured[label].retrieval, name)
            for name in measured[first].retrieval.measures()
        ]
        for label in others
    }
    figure = difference_picture(found)
    drawn(figure)
    assert len(figure.axes) == len(others)


def test_differences_of_nothing_are_refused() -> None:
    for nothing in ({}, {"a against b": []}):
        with pytest.raises(OptionError):
            difference_picture(nothing)


def test_a_difference_without_any_width(drawn: Draw) -> None:
    drawn(difference_picture({"same": [Difference("eer", 0.0, Interval(0.0, 0.0))]}))


def test_thresholds_are_dashed_where_they_are_extrapolated(drawn: Draw) -> None:
    found = made(0.2, 30)
    sizes = [5, 10, 29, 40, 60]
    figure = threshold_picture(found, title="a model", rates=[0.2, 1e-6], galleries=sizes)
    drawn(figure)
    measured, beyond = figure.axes[0].lines[:2]
    assert list(measured.get_xdata()) == sizes[:3]
    expected = [found.for_fpir(0.2, size).threshold for size in sizes]
    assert list(measured.get_ydata()) == expected[:3]
    assert list(beyond.get_xdata()) == sizes[2:]
    assert list(beyond.get_ydata()) == expected[2:]
    assert beyond.get_linestyle() == "--"
    shown = texts(figure)
    assert "FPIR 20 %" in shown
    assert "too few identities for FPIR 0.0001 %" in shown
    assert figure.axes[0].get_title(loc="left") == "a model"
    assert figure.axes[0].get_title(loc="right") == "from 30 validation identities, 150 samples"


def test_thresholds_for_rates_that_are_not_supported_are_refused(drawn: Draw) -> None:
    found = made(0.2, 30)
    drawn(threshold_picture(found))
    with pytest.raises(OptionError):
        threshold_picture(found, rates=[1e-6])


@pytest.mark.parametrize("count", MODELS)
def test_reliability_of_any_number_of_models(count: int, drawn: Draw) -> None:
    noises = {name: 0.15 + 0.03 * place for place, name in enumerate(NAMES[:count])}
    found = {name: made(noise) for name, noise in noises.items()}
    results = {name: judged(found[name], noise) for name, noise in noises.items()}
    figure = reliability_picture(results, found)
    drawn(figure)
    first = results["arcface"]
    assert f"arcface: calibration error {100 * first.ece:.2f} %" in texts(figure)
    upper, _, right = figure.axes
    for predicted, frequency, pairs in zip(
        first.mean_probability, first.frequency, first.counts, strict=True
    ):
        assert not pairs or (predicted, frequency) in marks(upper)
    cosine = found["arcface"].for_far(0.01).threshold
    assert (cosine, found["arcface"].probability(cosine)) in marks(right)


def test_a_probability_that_was_not_tested(drawn: Draw) -> None:
    found = made(0.2)
    figure = reliability_picture({}, {"alone": found})
    drawn(figure)
    assert len(figure.axes) == 1
    assert ("FAR 0.01 %" in texts(figure)) == (len(found.fars) == 3)
    assert "FAR 1 %" in texts(figure)
    drawn(reliability_picture({"alone": judged(found, 0.2)}, {}))
    with pytest.raises(OptionError):
        reliability_picture({}, {})
