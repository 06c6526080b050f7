"""The report of one or several runs: one page with a verdict, a viewer, and every picture."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from matplotlib.figure import Figure

from arcset.data import ImageSet
from arcset.errors import InputError, OptionError
from arcset.evaluation import Assessment, Difference
from arcset.evaluation.measures import run_figures
from arcset.reports import confusions, findings, stills
from arcset.reports.measure_plots import plot_sections
from arcset.reports.page import Section, write_page
from arcset.reports.style import GREY, new_figure, save, styled
from arcset.reports.training_review import HISTORY_CAPTION, advise, history_picture, verdict_on
from arcset.reports.view import RunView, pictured
from arcset.reports.viewer import viewer_data
from arcset.text import without_folders

__all__ = ["RunReport", "sheet_picture", "summary_table", "write_report"]

logger = logging.getLogger("arcset")

MOST_CONFUSED = 3  # runs whose confusions are shown
_LETTERS = 150  # that the names of all classes may have together, to be listed
_EXAMPLES = 3  # that are listed otherwise

Cell = Mapping[str, float | None]


@dataclass(frozen=True)
class Still:
    """A picture of the report: its file, how to draw it, and what to say under it."""

    name: str
    title: str
    caption: tuple[str, str]  # what it means, when it misleads
    draw: Callable[[], Figure]
    rows: Callable[[], Sequence[Sequence[str]]] = tuple  # a table below it


@dataclass(frozen=True)
class RunReport:
    """One or several runs on the same data.

    `runs` are compared with each other; `others` are shown beside them, for instance the same
    losses in three dimensions. `unseen` are the assessments on the classes held out, by run, and
    `differences` and `verdicts` what their comparison comes to, as a picture and in words.
    """

    title: str
    runs: Sequence[RunView]
    others: Sequence[RunView] = ()
    comparison: Mapping[str, Any] | None = None
    measures: Mapping[str, str] = field(default_factory=dict)
    verdict: str = ""
    command: str = ""
    unseen: Mapping[str, Assessment] = field(default_factory=dict)
    differences: Mapping[str, Sequence[Difference]] = field(default_factory=dict)
    verdicts: Sequence[tuple[str, str]] = ()  # measure, sentence
    shown: Sequence[str] = ()  # titles of the runs that the interactive view opens with
    more: Sequence[Section] = ()  # sections that others have made, after all of its own

    def write(self, out: Path, *, separate: bool = False) -> Path:
        """Write `out`/report.html; with `separate`, also each still to `out`/pictures."""
        pictures = out / "pictures" if separate else None
        sections = []
        for still in self.stills():
            try:
                figure, rows = still.draw(), still.rows()
            except InputError as error:  # too few classes or samples to show anything in
                logger.info("left out %r: %s", still.title, error)
                continue
            if pictures:
                save(figure, pictures / f"{still.name}.png")
            sections.append(Section(still.title, [figure], *still.caption, rows))
        for name, section in self._never_seen().items():
            for number, drawn in enumerate(section.figures if pictures else ()):
                assert isinstance(drawn, Figure)
                suffix = f"-{number + 1}" if number else ""
                save(drawn, out / "pictures" / f"unseen-{name}{suffix}.png")
            sections.append(section)
        write_report(
            out / "report.html",
            title=self.title,
            views=[*self.runs, *self.others],
            comparison=self.comparison,
            sections=[*sections, *self.more],
            verdict=" ".join(filter(None, (self.verdict, self._answer(), self._untested()))),
            advice=advise(self.runs[0]) if len(self.runs) == 1 else (),
            measures=self.measures,
            confused=self._confused(),
            groups=self._groups(),
            shown=self.shown,
            command=self.command,
        )
        return out / "report.html"

    def _groups(self) -> dict[str, str]:
        if not self.others:
            return {}
        return {
            **{view.title: "compared" for view in self.runs},
            **{view.title: "in three dimensions" for view in self.others},
        }

    def _answer(self) -> str:
        """How good it is on the unseen: of a single run; several have sentences of their own."""
        if len(self.runs) > 1:
            return ""
        return verdict_on(self.runs[0], next(iter(self.unseen.values()), None))

    def _untested(self) -> str:
        """What a reader must know where training left no image of the known classes over."""
        if all(view.selection.test is not None for view in self.runs):
            return ""
        return (
            "No image of the known classes was kept back from training: where a picture speaks of "
            "their test samples, it shows samples that were trained on."
        )

    def _confused(self) -> list[dict[str, Any]]:
        """The worst confusions of the runs that were measured on the unseen."""
        found = []
        for view in self.runs[:MOST_CONFUSED]:
            if view.title not in self.unseen or view.unseen is None:
                continue
            decided = confusions.decision_threshold(view.run.thresholds)
            different, same = confusions.worst_confusions(view.unseen, decided and decided[0])
            found.append(
                {
                    "run": view.title if len(self.runs) > 1 else "",
                    "kinds": {"Different, and alike": different, "The same, and unlike": same},
                    "threshold": decided and f"Threshold: {decided[0]:.4f}, {decided[1]}.",
                }
            )
        return found

    def _never_seen(self) -> dict[str, Section]:
        """What is measured on classes held out, and which differences there are real."""
        found = {
            name: replace(section, title=f"Never seen: {section.title}")
            for name, section in plot_sections("measures", self.unseen).items()
        }
        for name, section in plot_sections("differences", self.differences).items():
            rows = [("measure", "on classes never seen"), *self.verdicts]
            found[name] = replace(section, title="Which differences are real", rows=rows)
        return found

    def stills(self) -> list[Still]:
        """Every still that these runs have something to show in."""
        runs = self.runs
        classifying = [view for view in runs if view.loss.classifies]
        found = [
            Still("history", "How training went", HISTORY_CAPTION, lambda: history_picture(runs)),
            self._still("embedding", "Where the samples lie", runs),
        ]
        if self.others:
            found.append(self._still("embedding", "In three dimensions", self.others, "sphere"))
        if classifying:
            found.append(self._still("angle", "Own center and nearest other", classifying))
        several = runs[0].unseen is not None and len(runs[0].unseen.class_names) > 1
        if several and not self.unseen:  # assessments have sections of their own
            found.append(self._still("roc", "Same or different, never seen", runs))
        found += self._no_threshold()
        if classifying and runs[0].unseen is not None:
            found += self._confidence(classifying)
        found += self._bias()
        margins = "What each margin does to the target"
        found.append(Still("margins", margins, stills.CAPTIONS["margin"], stills.margin_picture))
        sheet = stills.CAPTIONS["sheet"]
        train = runs[0].selection.train
        found.append(Still("data", "The training images", sheet, lambda: sheet_picture(train)))
        return found

    def _still(
        self, kind: str, title: str, views: Sequence[RunView], name: str | None = None
    ) -> Still:
        draw = {
            "embedding": stills.embedding_picture,
            "angle": stills.angle_picture,
            "roc": stills.roc_picture,
        }[kind]
        return Still(name or kind, title, stills.CAPTIONS[kind], lambda: draw(views))

    def _no_threshold(self) -> list[Still]:
        """The worst triple of the first run, and of the last one where there are several."""
        meaning, misleads = findings.CAPTIONS["no_threshold_picture"]
        table = findings.CAPTIONS["no_threshold_table"]
        first, last = self.runs[0], self.runs[-1]
        stills = [
            Still(
                "no-threshold",
                "Pairs that no threshold tells apart",
                (f"{meaning} {table[0]}", f"{misleads} {table[1]}"),
                lambda: findings.no_threshold_picture(first, "euclidean"),
                lambda: findings.no_threshold_table(self.runs),
            )
        ]
        if last is not first:
            stills.append(
                Still(
                    "no-threshold-last",
                    f"The same for {last.title}, by cosine",
                    (meaning, misleads),
                    lambda: findings.no_threshold_picture(last, "cosine"),
                )
            )
        return stills

    def _confidence(self, classifying: Sequence[RunView]) -> list[Still]:
        first = classifying[0]
        return [
            Still(
                "confidence",
                "How sure a classifier is of what it cannot know",
                findings.CAPTIONS["confidence_picture"],
                lambda: findings.confidence_picture(classifying),
            ),
            Still(
                "confident-mistakes",
                f"The surest mistakes of {first.title}",
                findings.CAPTIONS["confident_mistakes_picture"],
                lambda: findings.confident_mistakes_picture(first),
            ),
        ]

    def _bias(self) -> list[Still]:
        """Softmax with and without bias, where both are among the runs."""
        softmax = [view for view in self.runs if view.config.loss == "softmax"]
        with_bias = [view for view in softmax if view.loss.biases is not None]
        without = [view for view in softmax if view.loss.biases is None]
        if not with_bias or not without:
            return []
        caption = findings.CAPTIONS["bias_picture"]
        draw = lambda: findings.bias_picture(with_bias[0], without[0])  # noqa: E731
        return [Still("bias", "What the bias learns", caption, draw)]


def write_report(
    out: Path,
    *,
    title: str,
    views: Sequence[RunView] = (),
    comparison: Mapping[str, Any] | None = None,
    sections: Sequence[Section] = (),
    verdict: str = "",
    advice: Sequence[str] = (),
    measures: Mapping[str, str] | None = None,
    confused: Sequence[Mapping[str, Any]] = (),
    groups: Mapping[str, str] | None = None,
    shown: Sequence[str] = (),
    command: str = "",
    points: int = 500,
) -> None:
    """Write `out`: one HTML file that needs nothing else and asks nothing of any network.

    views: the runs to look at; those that kept no embeddings are only listed.
    comparison: as `arcset compare --json` prints it, with what is compared in "of" if no losses
        are; `measures` gives its columns and what they mean.
    groups: the heading over the choice of runs, by the title of a view.
    shown: titles of the views that are open at first; two of them if not given.
    command: how to make all this again.
    points: most samples per part in the interactive view.

    The same input gives the same bytes: nothing in it is a date, a path or a machine's name.
    """
    data = viewer_data(views, groups=groups, points=points)
    names = [run["name"] for run in data["runs"]]
    # Comparisons tend to go from the plainest loss onwards.
    ends = sorted({0, len(names) - 1}) if names else []
    data["shown"] = [names.index(name) for name in shown if name in names] or ends
    write_page(
        out,
        "run_report.html",
        title=title,
        trained=_trained(views),
        verdict=verdict,
        advice=advice,
        table=None if comparison is None else summary_table(comparison, measures),
        data=data,
        sections=sections,
        confused=confused,
        confused_caption=confusions.CAPTION,
        timings=_timings(views),
        configurations=[(view.title, _configuration(view)) for view in views],
        command=command,
    )


def _trained(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """What was trained, which classes are known and which unseen: one item per kind of run."""
    kinds: dict[tuple[str, str, str, int], list[str]] = {}
    for view in views:
        unseen = view.selection.unseen
        others = "" if unseen is None else _listed(unseen.class_names)
        known = _listed(view.selection.train.class_names)
        kind = (without_folders(view.config.data), known, others, view.config.dim)
        kinds.setdefault(kind, []).append(view.title)
    return [
        {"data": data, "known": known, "unseen": others, "dim": dim, "runs": " · ".join(runs)}
        for (data, known, others, dim), runs in kinds.items()
    ]


def _listed(names: Sequence[str]) -> str:
    if sum(map(len, names)) > _LETTERS:
        return f"{len(names):,} classes, as {', '.join(names[:_EXAMPLES])}"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _configuration(view: RunView) -> str:
    """Every setting as TOML; of paths only the last part, as they tell of a machine."""

    def shorten(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shorten(part) for key, part in value.items()}
        return without_folders(value) if isinstance(value, str) else value

    settings = view.config.model_dump(mode="json", exclude_none=True)
    return tomli_w.dumps(shorten(settings))


def _timings(views: Sequence[RunView]) -> list[tuple[str, ...]]:
    """How long training took, as the runs have noted it; the first row is the heading."""
    heading = ("run", "network", "weights", "epochs", "seconds", "images per second")
    rows: list[tuple[str, ...]] = [heading]
    for view in views:
        lines = view.run.metrics()
        seconds = math.fsum(line["seconds"] for line in lines)
        images = math.fsum(line["seconds"] * line["images_per_second"] for line in lines)
        weights = sum(weight.numel() for weight in view.network.parameters())
        speed = f"{images / seconds:,.0f}" if seconds else ""
        name, network = view.title, view.config.network
        rows.append((name, network, f"{weights:,}", str(len(lines)), f"{seconds:.1f}", speed))
    return rows


# The table of what is compared


def summary_table(
    comparison: Mapping[str, Any], measures: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Mean and spread over seeds by what is compared, for the page.

    Columns are the measures that have a value, in the order of `measures`, which says what they
    mean. The best mean is marked "best"; every other whose seeds reach into its range "near".
    """
    summary: Mapping[str, Mapping[str, Cell]] = comparison["summary"]
    present = dict.fromkeys(name for found in summary.values() for name in found)
    meanings = measures or dict.fromkeys(present, "")
    lower = {key for key, measure in run_figures().items() if measure.lower_is_better}
    columns = [name for name in meanings if name in present]
    marks = {name: _marks(summary, name, name in lower) for name in columns}
    return {
        "of": comparison.get("of", "loss"),
        "seeds": len({run["seed"] for run in comparison.get("runs", [])}),
        "columns": [(name.replace("_", " "), meanings[name], name in lower) for name in columns],
        "rows": [
            (label, [_cell(found.get(name), marks[name].get(label, "")) for name in columns])
            for label, found in summary.items()
        ],
    }


def _marks(summary: Mapping[str, Mapping[str, Cell]], measure: str, lower: bool) -> dict[str, str]:
    """LABEL → best or near; nothing where they do not differ, and none for seconds."""
    cells = {
        label: found[measure]
        for label, found in summary.items()
        if found.get(measure, {}).get("mean") is not None
    }
    means = {label: _number(cell, "mean") for label, cell in cells.items()}
    if measure == "seconds" or len(set(means.values())) < 2:
        return {}
    best = (min if lower else max)(means.values())
    marks = {label: "best" for label, mean in means.items() if mean == best}
    leader = cells[next(iter(marks))]
    for label, cell in cells.items():
        if not (
            _number(cell, "high") < _number(leader, "low")
            or _number(cell, "low") > _number(leader, "high")
        ):
            marks.setdefault(label, "near")
    return marks


def _cell(cell: Cell | None, mark: str) -> dict[str, str] | None:
    if cell is None or cell.get("mean") is None:
        return None
    low, high = _number(cell, "low"), _number(cell, "high")
    spread = f"{_format(low)}…{_format(high)}" if low != high else ""
    return {"mean": _format(_number(cell, "mean")), "spread": spread, "mark": mark}


def _number(cell: Cell, name: str) -> float:
    value = cell.get(name)
    return math.nan if value is None else value


def _format(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 2 else f"{value:.1f}"


# The sheet of training images

MOST_CLASSES = 20
_TALL = 10  # classes from which on they stand in two columns


@styled
def sheet_picture(images: ImageSet, per_class: int = 8) -> Figure:
    """`per_class` images of each class, one row per class, taken evenly from the whole set.

    Of more than 20 classes, 20 evenly spaced ones are shown, and the picture says so. Raises
    `OptionError` for `per_class` < 1.
    """
    if per_class < 1:
        raise OptionError(f"per_class must be at least 1, not {per_class}")
    names = images.class_names
    chosen = np.unique(np.linspace(0, len(names) - 1, min(len(names), MOST_CLASSES)).astype(int))
    columns = 2 if len(chosen) > _TALL else 1
    rows = -(-len(chosen) // columns)
    pixels = pictured(images.images)
    tile, gap = np.array(pixels.shape[1:3]), 2
    height, width = (tile + gap) * (rows, per_class) - gap
    longest = max(len(names[number]) for number in chosen.tolist())
    name_width, across, foot = 0.2 + 0.085 * longest, 6.4 * columns**0.5, 0.4
    drawn = across / columns - name_width - 0.1  # inches
    tall = drawn * height / width
    figure = new_figure(across, tall + 0.1 + foot)
    for column in range(columns):
        sheet = np.full((height, width, *pixels.shape[3:]), 255, np.uint8)
        left = (column * (name_width + drawn + 0.1) + name_width) / across
        box = (left, foot / (tall + 0.1 + foot), drawn / across, tall / (tall + 0.1 + foot))
        axes = figure.add_axes(box)
        for row, number in enumerate(chosen[column * rows : (column + 1) * rows].tolist()):
            members = np.flatnonzero(images.labels == number)
            evenly = np.linspace(0, len(members) - 1, min(per_class, len(members))).astype(int)
            top = row * (tile[0] + gap)
            for position, member in enumerate(members[evenly].tolist()):
                start = position * (tile[1] + gap)
                sheet[top : top + tile[0], start : start + tile[1]] = pixels[member]
            middle = top + tile[0] / 2
            axes.text(-2 * gap, middle, names[number], ha="right", va="center", fontsize=10)
        axes.imshow(sheet, cmap="gray", vmin=0, vmax=255, interpolation="nearest", aspect="auto")
        axes.set_axis_off()
    if len(chosen) < len(names):
        said = f"{len(chosen)} of {len(names)} classes"
        figure.text(0.5, 0.12 / (tall + 0.1 + foot), said, ha="center", fontsize=9, color=GREY)
    return figure
