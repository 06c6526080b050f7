"""Every plot of measures, from real results: what it shows, and that nothing is cut off."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from arcset.errors import InputError
from arcset.evaluation import Assessment, Difference, identification, retrieval, verification
from arcset.evaluation.assessment import Realized
from arcset.evaluation.few_shot import few_shot
from arcset.evaluation.results import Interval
from arcset.reports.measure_plots import (
    angles_plot,
    difference_plot,
    few_shot_plot,
    identification_plot,
    list_realized,
    list_thresholds,
    plot_sections,
    probability_plot,
    reliability_plot,
    retrieval_plot,
    threshold_plot,
    verification_plot,
)
from arcset.reports.plots import PLOTS, looks
from arcset.reports.tables import realized_rows

from .conftest import NAMES, embeddings, judge, only

pytestmark = pytest.mark.filterwarnings("error")

Draw = Callable[[Figure], bytes]
Measured = dict[str, Assessment]


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


MEASURED = {
    "verification": verification_plot,
    "identification": identification_plot,
    "retrieval": retrieval_plot,
    "few_shot": few_shot_plot,
    "own_angles": angles_plot,
}


@pytest.mark.parametrize("part", MEASURED)
def test_nothing_is_cut_off_with_eight_models(measured: Measured, part: str, drawn: Draw) -> None:
    figure = MEASURED[part](measured)
    drawn(figure)
    for name in ("arcface", "_hidden", "costs $5 or $6", "two lines", "seed-7"):
        assert name in texts(figure)


@pytest.mark.parametrize("part", ["verification", "identification", "retrieval"])
def test_keys_of_32_models_do_not_overlap(bare: Assessment, part: str, drawn: Draw) -> None:
    figure = MEASURED[part]({f"model {n}": only(bare, part) for n in range(32)})
    drawn(figure)
    boxes = [text.get_window_extent() for key in figure.legends for text in key.get_texts()]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert all(not bars(axes) for axes in figure.axes)  # it has no intervals


def test_a_plot_is_one_entry(measured: Measured) -> None:
    """Every section has a title and both sentences, and is left out where nothing is to be seen."""
    for plot in PLOTS:
        assert plot.title
        assert plot.meaning.endswith(".")
        assert plot.misleads.endswith(".")
    one = {"arcface": only(measured["arcface"], "few_shot")}
    sections = plot_sections("measures", one)
    assert [section.title for section in sections.values()] == ["Named after a few examples"]
    assert plot_sections("thresholds", one) == {}
    with pytest.raises(InputError):
        verification_plot({})


def test_a_model_looks_the_same_in_every_plot(measured: Measured) -> None:
    with_few_shot = [*measured][3:5]
    models = {
        label: only(found, *["few_shot"] * (label in with_few_shot))
        for label, found in measured.items()
    }
    axes = few_shot_plot(models).axes[0]
    expected = {looks(measured)[label].colour for label in with_few_shot}
    assert {line.get_color() for line in axes.lines if line.get_marker() != "None"} == expected


def test_rates_and_intervals_of_verification(measured: Measured) -> None:
    result = measured["softmax"].verification
    left, right = verification_plot({"softmax": measured["softmax"]}).axes
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
    small = verification([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], [0, 0, 1], fars=[0.1, 1.0])
    drawn(verification_plot({"small": only(verification=small)}))


def test_identification_says_what_is_in_the_gallery(measured: Measured, drawn: Draw) -> None:
    result = measured["softmax"].identification
    figure = identification_plot({"softmax": measured["softmax"]})
    gallery = f"gallery: {result.subjects} subjects, {result.samples} samples"
    assert gallery in texts(figure)
    left, right = figure.axes
    assert all((pytest.approx(k), value) in marks(left) for k, value in result.rank.items())
    assert (pytest.approx(0.1), pytest.approx(1 - result.dir_at_fpir[0.1])) in marks(right)
    assert left.get_xscale() == "linear"
    rows, labels = embeddings(0.2, identities=30)
    other = only(identification=identification(rows[::5], labels[::5], rows[1::5], labels[1::5]))
    figure = identification_plot({"softmax": measured["softmax"], "thirty": other})
    drawn(figure)
    assert f"softmax: {gallery}" in texts(figure)
    assert "thirty: gallery: 30 subjects" in texts(figure)
    assert figure.axes[0].get_xscale() == "log"  # of so many ranks


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


def test_retrieval_beyond_the_references(drawn: Draw) -> None:
    rows, labels = embeddings(0.2, identities=3, each=2)
    result = retrieval(rows, labels, ks=(1, 5, 10), intervals=True, draws=10)
    assert math.isnan(result.recall_at[10])
    figure = retrieval_plot({"few": only(retrieval=result)})
    drawn(figure)
    assert "6 queries" in texts(figure)
    assert len(marks(figure.axes[0])) == 2


def test_angles_with_and_without_centers(measured: Measured, bare: Assessment, drawn: Draw) -> None:
    whole = measured["arcface"]
    averages = angles_plot({"arcface": whole}).axes[-1]
    assert whole.angles.intra in [y for _, y in marks(averages)]
    assert any(ends == pytest.approx(whole.angles.interval("intra")) for ends in bars(averages))
    figure = angles_plot({"bare": bare})
    drawn(figure)
    assert texts(figure).count("no centers") == 2


def test_averages_are_drawn_without_angles_of_samples(measured: Measured, drawn: Draw) -> None:
    averages = measured["arcface"].angles
    figure = angles_plot({"arcface": only(measured["arcface"], "angles")})
    drawn(figure)
    assert averages.intra in [y for _, y in marks(figure.axes[-1])]
    assert "no angles of samples" in texts(figure)


def test_few_shot_says_which_model_had_which_protocol(drawn: Draw) -> None:
    models = {
        label: only(few_shot=few_shot(*embeddings(0.2), ways=ways, episodes=9))
        for label, ways in (("a", 3), ("b", 5))
    }
    figure = few_shot_plot(models)
    drawn(figure)
    first, second = (label.get_text() for label in figure.axes[0].get_yticklabels())
    assert first.startswith("a")
    assert "3-way" in first
    assert second.startswith("b")
    assert "5-way" in second


def test_a_range_has_the_digits_of_what_was_seen_beside_it() -> None:
    item = Realized("FAR", 0.01, 0.5, Interval(0.00754, 0.01286), seen=0.01294, accepted=0.9)
    _, _, _, expected, seen, *_ = realized_rows([item])[0]
    assert (expected, seen) == ("0.754 to 1.29 %", "1.29 %")


def test_differences_are_coloured_only_where_they_are_shown(drawn: Draw) -> None:
    nothing = Interval(math.nan, math.nan)
    rows = [
        Difference("eer", 0.02, Interval(0.01, 0.03)),
        Difference("auc", -0.02, Interval(-0.03, -0.01)),
        Difference("rank[1]", 0.01, Interval(-0.01, 0.03)),
        Difference("tar_at_far[1e-05]", math.nan, nothing),
        Difference("recall_at[1]", 0.04, nothing, why="2 are too few"),
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
    said = ("not defined here", "TAR at FAR 0.001 %", "+2.0 [+1.0, +3.0]", "+4.0 (too few to tell)")
    assert all(words in texts(figure) for words in said)
    drawn(difference_plot({"same": [Difference("eer", 0.0, Interval(0.0, 0.0))]}))
    with pytest.raises(InputError):
        difference_plot({"a against b": []})


def test_thresholds_are_dashed_where_they_are_extrapolated_or_rough(drawn: Draw) -> None:
    found = judge(0.2, validation=embeddings(0.2, identities=40, seed=1)).thresholds
    figure = threshold_plot({"a model": only(thresholds=found)})
    drawn(figure)
    measured, beyond = figure.axes[0].lines[:2]
    border = max(measured.get_xdata())
    assert border == min(beyond.get_xdata()) <= 79
    for size in beyond.get_xdata()[1:]:
        one = found.for_fpir(0.1, size)
        assert one.pinned
        assert one.extrapolated or one.rough
    for line in (measured, beyond):
        expected = [found.for_fpir(0.1, size).threshold for size in line.get_xdata()]
        assert list(line.get_ydata()) == expected
    assert beyond.get_linestyle() == "--"
    assert marks(figure.axes[0])[0] == tuple(beyond.get_xydata()[-1])
    shown = texts(figure)
    assert "FPIR 10 %" in shown
    assert "from 80 held-out identities, 400 samples" in shown


def test_thresholds_of_several_models_say_whose_they_are(tuned: Assessment) -> None:
    models = {"a": tuned, "b": tuned, "c": only()}
    for rows in (list_thresholds(models), list_realized(models)):
        assert {row[0].partition(":")[0] for row in rows[1:]} == {"a", "b"}
    assert list_realized({"c": only()}) == []


@pytest.mark.parametrize("count", [1, pytest.param(8, marks=pytest.mark.long)])
def test_reliability_of_any_number_of_models(count: int, tuned: Assessment, drawn: Draw) -> None:
    models = dict.fromkeys(NAMES[:count], tuned)
    figure = reliability_plot(models)
    drawn(figure)
    tried, made = tuned.reliability, tuned.thresholds
    assert f"arcface: calibration error {100 * tried.ece:.2f} %" in texts(figure)
    upper = next(axes for axes in figure.axes if "reliability" in axes.get_title())
    full = tried.counts > 0
    expected = np.stack([tried.mean_probability[full], tried.frequency[full]], axis=1).tolist()
    assert expected in [line.get_xydata().tolist() for line in upper.lines]
    right = next(axes for axes in figure.axes if "cosine" in axes.get_title())
    cosine = made.for_far(0.01).threshold
    assert (cosine, made.probability(cosine)) in marks(right)


def test_a_probability_that_was_not_tried(tuned: Assessment, drawn: Draw) -> None:
    figure = probability_plot({"alone": only(tuned, "thresholds")})
    drawn(figure)
    assert len(figure.axes) == 1
    assert "FAR 1 %" in texts(figure)
    with pytest.raises(InputError):
        reliability_plot({"alone": only(tuned, "thresholds")})
