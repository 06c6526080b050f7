"""Every plot of measures, from real results: what it shows, and that nothing is cut off."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from arcset.errors import InputError
from arcset.evaluation import Assessment, Difference, identification, retrieval, verification
from arcset.evaluation.results import Interval
from arcset.reports.measure_plots import (
    angles_plot,
    difference_plot,
    few_shot_plot,
    identification_plot,
    plot_sections,
    probability_plot,
    realized_rows,
    reliability_plot,
    retrieval_plot,
    threshold_plot,
    threshold_rows,
    verification_plot,
)
from arcset.reports.plots import PLOTS, looks

from .conftest import KEPT, MISSED, NAMES, Measured, assessment, embeddings, judged, made, only

pytestmark = pytest.mark.filterwarnings("error")

Draw = Callable[[Figure], bytes]


def marks(axes: Axes) -> list[tuple[float, float]]:
    """Where single marks were drawn."""
    lines = (line for line in axes.lines if len(line.get_xdata()) == 1)
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in lines]


def bars(axes: Axes) -> list[tuple[float, float]]:
    """From where to where upright bars reach."""
    ends = [
        (line.get_xdata(), line.get_ydata()) for line in axes.lines if len(line.get_xdata()) == 2
    ]
    return [tuple(y) for x, y in ends if x[0] == x[1] and y[0] != y[1]]


def texts(figure: Figure) -> str:
    """Everything that stands in a picture, keys included."""
    found = [text.get_text() for text in figure.findobj(lambda a: hasattr(a, "get_text"))]
    return "\n".join(found)


def parts(measured: dict[str, Measured], part: str, count: int = 8) -> dict[str, Assessment]:
    found = list(measured.items())[:count]
    return {label: only(**{part: getattr(each, part)}) for label, each in found}


MEASURED = {
    "verification": verification_plot,
    "identification": identification_plot,
    "retrieval": retrieval_plot,
    "few_shot": few_shot_plot,
    "angles": angles_plot,
}


@pytest.mark.parametrize("part", MEASURED)
def test_nothing_is_cut_off_with_eight_models(
    measured: dict[str, Measured], part: str, drawn: Draw
) -> None:
    figure = MEASURED[part]({label: assessment(found) for label, found in measured.items()})
    drawn(figure)
    assert "arcface" in texts(figure)


@pytest.mark.parametrize("part", ["verification", "identification", "retrieval"])
def test_keys_of_32_models_do_not_overlap(bare: Measured, part: str, drawn: Draw) -> None:
    figure = MEASURED[part]({f"model {n}": only(**{part: getattr(bare, part)}) for n in range(32)})
    drawn(figure)
    boxes = [text.get_window_extent() for key in figure.legends for text in key.get_texts()]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert all(not bars(axes) for axes in figure.axes)  # it has no intervals


def test_a_plot_is_one_entry(measured: dict[str, Measured]) -> None:
    """Every section has a title and both sentences, and is left out where nothing is to be seen."""
    for plot in PLOTS:
        assert plot.title
        assert plot.meaning.endswith(".")
        assert plot.misleads.endswith(".")
    sections = plot_sections("measures", parts(measured, "few_shot"))
    assert [section.title for section in sections.values()] == ["Named after a few examples"]
    assert plot_sections("thresholds", parts(measured, "few_shot")) == {}
    with pytest.raises(InputError):
        verification_plot({})


def test_a_model_looks_the_same_in_every_plot(measured: dict[str, Measured]) -> None:
    every: dict[str, Assessment] = {label: only() for label in measured}
    some = dict(list(parts(measured, "few_shot").items())[3:5])
    axes = few_shot_plot({**every, **some}).axes[0]
    expected = {looks(every)[label].colour for label in some}
    assert {line.get_color() for line in axes.lines if line.get_marker() != "None"} == expected
    assert len({look.colour for look in looks(every).values()}) == 8


def test_names_stay_as_they_are(measured: dict[str, Measured]) -> None:
    shown = texts(verification_plot(parts(measured, "verification")))
    assert "_hidden: AUC" in shown
    assert "costs $5 or $6: AUC" in shown
    assert "two lines: AUC" in shown
    assert "runs/of/a/very" in shown
    assert "seed-7: AUC" in shown


def test_rates_and_intervals_of_verification(measured: dict[str, Measured]) -> None:
    result = measured["softmax"].verification
    left, right = verification_plot({"softmax": only(verification=result)}).axes
    for rate, value in result.tar_at_far.items():
        if math.isnan(value):
            assert rate not in [pytest.approx(x) for x, _ in marks(left)]
            continue
        assert (pytest.approx(rate), value) in marks(left)
        interval = pytest.approx(result.interval("tar_at_far", rate))
        assert any(ends == interval for ends in bars(left))
    assert (pytest.approx(result.eer), pytest.approx(result.eer)) in marks(right)
    assert (pytest.approx(0.01), pytest.approx(1 - result.tar_at_far[0.01])) in marks(right)
    assert left.get_xlim()[0] < 1 / result.impostor <= left.lines[0].get_xdata()[0]


def test_verification_without_errors_by_guessing_and_of_the_smallest_set(drawn: Draw) -> None:
    rows, labels = embeddings(0.0)
    perfect = only(verification=verification(rows, labels, intervals=True, draws=20))
    figure = verification_plot({"perfect": perfect})
    drawn(figure)
    assert "no errors" in texts(figure)
    shuffled = np.random.default_rng(0).permutation(labels)
    guessing = only(verification=verification(rows, shuffled))
    drawn(verification_plot({"perfect": perfect, "guessing": guessing}))
    drawn(verification_plot({"guessing": guessing}))
    small = verification([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], [0, 0, 1], fars=[0.1, 1.0])
    drawn(verification_plot({"small": only(verification=small)}))


def test_identification_says_what_is_in_the_gallery(
    measured: dict[str, Measured], drawn: Draw
) -> None:
    result = measured["softmax"].identification
    figure = identification_plot({"softmax": only(identification=result)})
    said = f"gallery: {result.subjects} subjects, {result.samples} samples"
    assert said in texts(figure)
    left, right = figure.axes
    assert all((pytest.approx(k), value) in marks(left) for k, value in result.rank.items())
    assert (pytest.approx(0.1), pytest.approx(1 - result.dir_at_fpir[0.1])) in marks(right)
    rows, labels = embeddings(0.2)
    other = only(identification=identification(rows[:50:5], labels[:50:5], rows, labels))
    figure = identification_plot({"softmax": only(identification=result), "ten": other})
    drawn(figure)
    assert f"softmax: {said}" in texts(figure)
    assert "ten: gallery: 10 subjects" in texts(figure)


@pytest.mark.parametrize(
    ("noise", "probes", "said"),
    [
        (0.2, slice(100, 200), "needs probes of enrolled"),
        (0.2, slice(0, 100), "needs probes of enrolled"),
        (0.0, slice(0, 200), "no enrolled probe is missed"),
    ],
)
def test_identification_says_why_there_is_no_curve(
    noise: float, probes: slice, said: str, drawn: Draw
) -> None:
    rows, labels = embeddings(noise)
    result = identification(
        rows[:100], labels[:100], rows[probes], labels[probes], intervals=True, draws=10
    )
    figure = identification_plot({"one": only(identification=result)})
    drawn(figure)
    assert said in texts(figure)


def test_identification_among_many_subjects_has_a_logarithmic_axis(
    measured: dict[str, Measured],
) -> None:
    rows, labels = embeddings(0.2, identities=30)
    many = identification(rows[::5], labels[::5], rows[1::5], labels[1::5])
    figure = identification_plot({"many": only(identification=many)})
    assert figure.axes[0].get_xscale() == "log"
    few = identification_plot(parts(measured, "identification", 1))
    assert few.axes[0].get_xscale() == "linear"


def test_retrieval_beyond_the_references(drawn: Draw) -> None:
    rows, labels = embeddings(0.2, identities=3, each=2)
    result = retrieval(rows, labels, ks=(1, 5, 10), intervals=True, draws=10)
    assert math.isnan(result.recall_at[10])
    figure = retrieval_plot({"few": only(retrieval=result)})
    drawn(figure)
    assert "6 queries" in texts(figure)
    assert len(marks(figure.axes[0])) == 2


def test_angles_with_and_without_centers_or_samples(
    measured: dict[str, Measured], bare: Measured, drawn: Draw
) -> None:
    whole = assessment(measured["arcface"])
    averages = angles_plot({"arcface": whole}).axes[-1]
    assert whole.angles.intra in [y for _, y in marks(averages)]
    assert any(ends == pytest.approx(whole.angles.interval("intra")) for ends in bars(averages))
    without = only(angles=bare.angles, own_angles=bare.own, other_angles=bare.other)
    figure = angles_plot({"bare": without})
    drawn(figure)
    assert texts(figure).count("no centers") == 2
    drawn(angles_plot({"bare": only(angles=bare.angles)}))
    drawn(angles_plot({"bare": replace(without, angles=None)}))
    none = np.full(4, math.nan)
    drawn(angles_plot({"bare": only(own_angles=bare.own[:4], other_angles=none)}))


def test_differences_are_coloured_only_where_they_are_shown(drawn: Draw) -> None:
    rows = [
        Difference("eer", 0.02, Interval(0.01, 0.03)),
        Difference("auc", -0.02, Interval(-0.03, -0.01)),
        Difference("rank[1]", 0.01, Interval(-0.01, 0.03)),
        Difference("tar_at_far[1e-05]", math.nan, Interval(math.nan, math.nan)),
        Difference("recall_at[1]", 0.04, Interval(math.nan, math.nan), why="2 are too few"),
        Difference("intra", 3.0, Interval(2.0, 4.0), degrees=True),
    ]
    figure = difference_plot({"new against old": rows})
    drawn(figure)
    shares, angles = figure.axes
    lines = [line for line in shares.lines if len(line.get_xdata()) == 1]
    colours = {round(float(line.get_xdata()[0]), 6): line.get_color() for line in lines}
    assert len({colours[2.0], colours[-2.0], colours[1.0]}) == 3
    assert colours[4.0] == colours[1.0]
    assert (3.0, 0.0) in marks(angles)
    shown = texts(figure)
    assert "not defined here" in shown
    assert "TAR at FAR 0.001 %" in shown
    assert "+2.0 [+1.0, +3.0]" in shown
    assert "+4.0 (too few to tell)" in shown
    drawn(difference_plot({"same": [Difference("eer", 0.0, Interval(0.0, 0.0))]}))
    with pytest.raises(InputError):
        difference_plot({"a against b": []})


def test_thresholds_are_dashed_where_they_are_extrapolated(drawn: Draw) -> None:
    found = made(0.2, 30)
    figure = threshold_plot({"a model": only(thresholds=found)})
    drawn(figure)
    measured, beyond = figure.axes[0].lines[:2]
    assert max(measured.get_xdata()) == min(beyond.get_xdata()) == 29
    for line in (measured, beyond):
        expected = [found.for_fpir(0.1, size).threshold for size in line.get_xdata()]
        assert list(line.get_ydata()) == expected
    assert beyond.get_linestyle() == "--"
    shown = texts(figure)
    assert "FPIR 10 %" in shown
    assert "too few identities for FPIR 0.1 %" in shown
    assert "from 30 validation identities, 150 samples" in shown
    with pytest.raises(InputError):
        threshold_plot({"few": only(thresholds=made(0.2, 3))})


def test_thresholds_of_several_models_say_whose_they_are() -> None:
    rows = threshold_rows({"a": only(thresholds=made(0.2)), "b": only(thresholds=made(0.3))})
    assert {row[0].partition(":")[0] for row in rows[1:]} == {"a", "b"}
    tried = {"a": only(realized=(KEPT,)), "b": only(realized=(KEPT, MISSED)), "c": only()}
    rows = realized_rows(tried)
    assert [row[0] for row in rows] == ["to keep", "a: FAR 1 %", "b: FAR 1 %", "b: FPIR 10 %"]
    assert realized_rows({"a": only()}) == []


@pytest.mark.parametrize("count", [1, pytest.param(8, marks=pytest.mark.long)])
def test_reliability_of_any_number_of_models(count: int, drawn: Draw) -> None:
    noises = {name: 0.15 + 0.03 * number for number, name in enumerate(NAMES[:count])}
    thresholds = {name: made(noise) for name, noise in noises.items()}
    found = {
        name: only(thresholds=thresholds[name], reliability=judged(thresholds[name], noise))
        for name, noise in noises.items()
    }
    figure = reliability_plot(found)
    drawn(figure)
    first, made_from = found["arcface"].reliability, thresholds["arcface"]
    assert f"arcface: calibration error {100 * first.ece:.2f} %" in texts(figure)
    upper = next(axes for axes in figure.axes if "reliability" in axes.get_title())
    full = first.counts > 0
    drawn_at = [line.get_xydata().tolist() for line in upper.lines]
    expected = np.stack([first.mean_probability[full], first.frequency[full]], axis=1)
    assert expected.tolist() in drawn_at
    right = next(axes for axes in figure.axes if "cosine" in axes.get_title())
    cosine = made_from.for_far(0.01).threshold
    assert (cosine, made_from.probability(cosine)) in marks(right)


def test_a_probability_that_was_not_tried(drawn: Draw) -> None:
    found = only(thresholds=made(0.2))
    figure = probability_plot({"alone": found})
    drawn(figure)
    assert len(figure.axes) == 1
    assert "FAR 1 %" in texts(figure)
    with pytest.raises(InputError):
        reliability_plot({"alone": found})
