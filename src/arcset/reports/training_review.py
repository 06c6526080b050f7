"""How training went, how good the run is on the unseen, and what would help most.

Every piece of advice names the figure of the run that it rests on; without a figure there is none.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from arcset.errors import InputError
from arcset.evaluation import Assessment, Thresholds
from arcset.evaluation.assessment import FEW
from arcset.evaluation.measures import validated
from arcset.evaluation.pairs import cosine_blocks
from arcset.losses.build import lowest_loss
from arcset.reports.page import Picture, embed_image
from arcset.reports.plots import Look, add_key, looks, plain, plot_figure
from arcset.reports.style import GREY, style
from arcset.reports.tables import list_values
from arcset.reports.view import Embedded, Labels, RunView, titles, unit_float64
from arcset.text import percent, plural

FEW_TRAINED = 100  # identities, below which little is learned about others
FEW_IMAGES = 5  # of an identity
MOST_ADVICE = 4

HISTORY_CAPTION = (
    "Left the mean loss of every epoch; right how many are named rightly, of the images trained on "
    "and of others of the same classes, and the measure on the validation identities, where there "
    "are some. A dotted line marks the epoch whose weights were kept.",
    "Losses of different kinds, scales and margins do not compare, and a margin that comes in "
    "slowly makes the loss rise while the network gets better. A validation of few identities goes "
    "up and down by chance.",
)


# The course of training

History = Sequence[Mapping[str, Any]]  # the lines of metrics.jsonl


@style()
def history_picture(views: Sequence[RunView]) -> Figure:
    """Loss, accuracy on the known and the validation measure over the epochs.

    Raises `InputError` where no run has recorded an epoch.
    """
    histories = {name: view.run.metrics() for name, view in zip(titles(views), views, strict=True)}
    histories = {name: lines for name, lines in histories.items() if lines}
    if not histories:
        raise InputError("no epoch was recorded")
    figure = plot_figure(3.4, 9.0)
    left, right = figure.subplots(1, 2)
    models = looks(histories)
    for name, lines in histories.items():
        _draw_line(left, lines, [line.get("loss") for line in lines], name, models[name])
    losses = [line["loss"] for lines in histories.values() for line in lines if line.get("loss")]
    if losses and min(losses) > 0 and max(losses) > 30 * min(losses):
        left.set_yscale("log")
        left.yaxis.set_major_formatter("{x:g}")
    left.set_title("loss", pad=14)
    if len(histories) == 1:
        _draw_shares(right, next(iter(histories.values())), views[0].config.best_by)
    else:
        _draw_compared(right, histories, {view.config.best_by for view in views}, models)
        add_key(figure, {plain(name): look for name, look in models.items()})
    for axes in (left, right):
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        axes.grid(axis="y")
    return figure


def _draw_shares(axes: Axes, lines: History, best_by: str) -> None:
    """One run: accuracy in and out of training, the validation measure, and the kept epoch."""
    measure = validated().get(best_by)
    columns = {
        "training images": [line.get("train_accuracy") for line in lines],
        "other images of the same classes": [line.get("test_accuracy") for line in lines],
        f"validation: {measure.title if measure else best_by}": [
            (line.get("validation") or {}).get(best_by) for line in lines
        ],
    }
    for name, look in looks(columns).items():
        _draw_line(axes, lines, columns[name], name, look)
    is_validated = any(line.get("validation") for line in lines)
    axes.set_title(f"named rightly{', and validation' if is_validated else ''}", pad=14)
    axes.set_ylim(-0.02, 1.02)
    chosen = [line["epoch"] for line in lines if line.get("kept")]
    if chosen:
        for panel in axes.figure.axes:
            panel.axvline(chosen[-1], color=GREY, lw=1, ls=":", zorder=1)
        axes.text(
            *(chosen[-1], 1.01, f"kept: {chosen[-1]}"),
            transform=axes.get_xaxis_transform(),
            ha="center",
            fontsize=8,
            color=GREY,
        )
    if axes.lines:
        axes.legend(loc="best")


def _draw_compared(
    axes: Axes,
    histories: Mapping[str, History],
    best_by: set[str],
    models: Mapping[str, Look],
) -> None:
    """Several runs: the validation measure, or accuracy on the known where there is none."""
    measure = next(iter(best_by)) if len(best_by) == 1 else ""
    validation = {
        name: [(line.get("validation") or {}).get(measure) for line in lines]
        for name, lines in histories.items()
    }
    is_validated = any(value is not None for values in validation.values() for value in values)
    for name, lines in histories.items():
        values = validation[name] if is_validated else [line.get("test_accuracy") for line in lines]
        _draw_line(axes, lines, values, name, models[name])
    if is_validated:
        axes.set_title(f"validation: {validated()[measure].title}")
    else:
        axes.set_title("other images of known classes, named rightly")
    axes.set_ylim(-0.02, 1.02)


def _draw_line(
    axes: Axes, lines: History, values: Sequence[float | None], name: str, look: Look
) -> None:
    points = [(line["epoch"], y) for line, y in zip(lines, values, strict=True) if y is not None]
    if points:
        mark = look.mark if len(points) <= 20 else {}
        axes.plot(*zip(*points, strict=True), label=name, **{**mark, **look.line})


# The verdict


def verdict_on(view: RunView, assessment: Assessment | None) -> str:
    """How good a run is on identities that it has never seen, in words, with the interval."""
    if assessment is None or assessment.verification is None:
        why = (
            "no identity was held out of training"
            if view.selection.unseen is None
            else "it was not measured; run arcset evaluate to find out"
            if assessment is None
            else assessment.missing.get("verification", "the data cannot tell")
        )
        return f"It is not known how well this run recognizes what it has never seen: {why}."
    values = list_values(assessment)
    error, area, rank = values["eer"], values["auc"], values.get("rank[1]")
    who = f"{plural(assessment.identities, 'identity', 'identities')} never seen"
    interval = "no interval"
    if error.interval:
        interval = f"95 % interval {error.format_interval(1)}"
    text = (
        f"On {who} ({plural(assessment.samples, 'sample')}), it takes {error.format(1)} of the "
        "pairs of different identities for the same, at the threshold that misses as many of the "
        f"pairs of one identity (equal error rate; {interval})."
    )
    if area.interval and area.interval.low <= 0.5:
        text += " That cannot be told from guessing."
    search = assessment.identification
    if search is not None and rank is not None and rank.is_known:
        enrolled = plural(search.subjects, "enrolled identity", "enrolled identities")
        text += (
            f" Searched for among {enrolled}, {rank.format(1)} of the images find their own "
            "identity first."
        )
    if assessment.identities < FEW:
        text += f" From fewer than {FEW} identities even the intervals are guesses."
    return text


def advise(view: RunView) -> list[str]:
    """What would help this run most, the most pressing first; at most `MOST_ADVICE`.

    Each sentence names the figure that it rests on.
    """
    advice = [*_advise_on_fit(view), *_advise_on_data(view), *_advise_on_length(view)]
    return advice[:MOST_ADVICE]


def _advise_on_fit(view: RunView) -> Iterator[str]:
    """Whether it learned what it was shown, and more than that."""
    loss, lines = view.loss, view.run.metrics()
    scale, guess = loss.settings().get("scale"), math.log(max(2, loss.classes))
    if isinstance(scale, float) and (least := lowest_loss(scale, loss.classes)) > 0.6 * guess:
        yield (
            f"Take a larger scale, or leave it out: with scale {scale:g} and {loss.classes:,} "
            f"classes the loss cannot fall below {least:.2f}, and guessing costs about {guess:.2f}."
        )
    if not lines or lines[-1].get("train_accuracy") is None:
        return
    last = next((line for line in reversed(lines) if line.get("kept")), lines[-1])
    train, test = last["train_accuracy"], last.get("test_accuracy")
    if train < 0.5:
        margin = loss.settings().get("margin")
        smaller = f", or a smaller margin than {margin:g}" if isinstance(margin, float) else ""
        yield (
            "Train longer, or with another learning rate"
            f"{smaller}: only {percent(train, 1)} of the images that it was trained on are named "
            f"rightly after {plural(last['epoch'], 'epoch')}."
        )
    elif test is not None and train - test > 0.1:
        yield (
            "Make it learn less by heart, with --augment or --set dropout=0.2: "
            f"{percent(train, 1)} of the training images are named rightly, but "
            f"{percent(test, 1)} of other images of the same classes."
        )


def _advise_on_data(view: RunView) -> Iterator[str]:
    labels = view.selection.train.labels
    counts = np.unique(labels, return_counts=True)[1]
    if len(counts) < FEW_TRAINED:
        yield (
            f"Train on more identities: {len(counts):,} teach little about others; below about "
            f"{FEW_TRAINED}, each new one helps more than more images of the same."
        )
    typical = int(np.median(counts))
    if typical < FEW_IMAGES:
        yield (
            f"Collect more images of each identity: half of them have at most {typical}, too few "
            "to learn what varies within one."
        )


def _advise_on_length(view: RunView) -> Iterator[str]:
    """Whether it stopped too early, or went on too long."""
    lines = view.run.metrics()
    losses = [line["loss"] for line in lines if line.get("loss") is not None]
    scores = [(line.get("validation") or {}).get(view.config.best_by) for line in lines]
    known = [score for score in scores if score is not None]
    chosen = [line["epoch"] for line in lines if line.get("kept")]
    went_on = bool(chosen) and len(known) >= 5 and chosen[-1] < 0.6 * lines[-1]["epoch"]
    if went_on and known[-1] < max(known):
        name = validated()[view.config.best_by].title if view.config.best_by in validated() else ""
        yield (
            f"Train for fewer epochs, or with more augmentation: {name or view.config.best_by} on "
            f"the validation identities was best after epoch {chosen[-1]} of {lines[-1]['epoch']} "
            f"({max(known):.3f}), and {known[-1]:.3f} at the end."
        )
    elif len(losses) > 1:
        span = max(1, len(losses) // 10)
        before, after = losses[-1 - span], losses[-1]
        if after < 0.95 * before and 0.5 <= lines[-1].get("train_accuracy", 0.5) < 0.99:
            last = "epoch" if span == 1 else f"{span} epochs"
            yield (
                "Train for more epochs: the loss was still falling at the end, from "
                f"{before:.3g} to {after:.3g} over the last {last}."
            )


# The worst confusions among unseen identities: the pairs of images that a threshold gets wrong

MOST_PAIRS = 6  # of each kind
MOST_SAMPLES = 20_000  # of which all pairs are compared; beyond, every second, third, … one
SIDE = 112  # pixels of a picture

Candidate = tuple[float, int, int]  # the cosine of two images, and their numbers

CONFUSIONS_CAPTION = (
    "Left, images of different identities that the network finds most alike; right, images of one "
    "identity that it finds least alike: what it confuses first. Below each pair are the cosine "
    "and, where the run has a threshold, its decision. Each pair of identities is listed once on "
    "the left, and each identity once on the right.",
    "These are the extremes, chosen for being the worst: how common they are is what "
    "the rates below say. A wrong label in the data looks like a confusion, too; look at the "
    "pictures.",
)


@dataclass(frozen=True)
class ConfusedPair:
    """Two images, the names of their classes, and how alike they are to the network."""

    pictures: tuple[Picture, Picture]
    names: tuple[str, str]
    cosine: float
    decision: str  # empty where there is no threshold
    is_wrong: bool


def decision_threshold(
    thresholds: Thresholds | None, far: float = 0.01
) -> tuple[float, str] | None:
    """The cosine from which on two images count as the same, and what it is, in words.

    That is the one for `far`, or the lowest FAR that can be pinned down, or the equal-error one
    where none can. None without thresholds.
    """
    if thresholds is None:
        return None
    if thresholds.equal_error is not None:
        return thresholds.equal_error.threshold, "the run's rough threshold"
    rate = max(far, thresholds.usual().far)
    return thresholds.for_far(rate).threshold, f"the run's threshold for a FAR of {percent(rate)}"


def worst_confusions(
    sample: Embedded, threshold: float | None = None
) -> tuple[list[ConfusedPair], list[ConfusedPair]]:
    """Pairs of different classes most alike, and pairs of one class least alike, worst first.

    Of each image the most similar of another class and the least similar of its own are candidates;
    two classes, or one, are listed once.
    """
    rows = np.arange(0, len(sample.labels), -(-len(sample.labels) // MOST_SAMPLES))
    labels = sample.labels[rows]
    alike: list[Candidate] = []
    unlike: list[Candidate] = []
    unit = unit_float64(sample.embeddings[rows]).astype(np.float32)
    for part, cosines in cosine_blocks(unit, unit):
        block = np.arange(part.start, part.stop)
        is_same = labels[block, None] == labels
        others = np.where(is_same, -np.inf, cosines)
        is_same[block - part.start, block] = False  # no image is a pair with itself
        fellows = np.where(is_same, cosines, np.inf)
        alike += zip(others.max(axis=1), block, others.argmax(axis=1), strict=True)
        unlike += zip(fellows.min(axis=1), block, fellows.argmin(axis=1), strict=True)
    alike.sort(key=lambda pair: -pair[0])
    unlike.sort(key=lambda pair: pair[0])
    different, same = (
        [_pair(sample, (rows[i], rows[j]), float(cosine), threshold) for cosine, i, j in chosen]
        for chosen in (_first_of_each(alike, labels), _first_of_each(unlike, labels))
    )
    return different, same


def _first_of_each(candidates: Sequence[Candidate], labels: Labels) -> list[Candidate]:
    """The first few, of other classes each; infinite cosines mean that there is no pair."""
    first: dict[frozenset[int], Candidate] = {}
    for cosine, i, j in candidates:
        if math.isinf(cosine) or len(first) == MOST_PAIRS:
            break
        first.setdefault(frozenset({int(labels[i]), int(labels[j])}), (cosine, i, j))
    return list(first.values())


def _pair(
    sample: Embedded, rows: tuple[int, int], cosine: float, threshold: float | None
) -> ConfusedPair:
    names = tuple(sample.class_names[sample.labels[row]] for row in rows)
    is_same = names[0] == names[1]
    is_accepted = threshold is not None and cosine >= threshold
    decision = "" if threshold is None else "taken for the same" if is_accepted else "told apart"
    return ConfusedPair(
        pictures=(_picture(sample, rows[0]), _picture(sample, rows[1])),
        names=(names[0], names[1]),
        cosine=cosine,
        decision=decision,
        is_wrong=threshold is not None and is_accepted != is_same,
    )


def _picture(sample: Embedded, row: int) -> Picture:
    image = Image.fromarray(sample.images[row])
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    return embed_image(np.asarray(image), f"{sample.class_names[sample.labels[row]]}, image {row}")
