"""The report of one or several runs: one page with a verdict, a viewer, and every picture."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tomli_w
from matplotlib.figure import Figure

from arcset.evaluation import Assessment, Difference
from arcset.evaluation.measures import figure_meanings, run_figures
from arcset.reports.measure_plots import plot_sections
from arcset.reports.page import Section, write_page
from arcset.reports.stills import embedding_picture
from arcset.reports.style import save
from arcset.reports.tables import mark_best
from arcset.reports.training_review import (
    CONFUSIONS_CAPTION,
    advise,
    decision_threshold,
    verdict_on,
    worst_confusions,
)
from arcset.reports.view import RunView
from arcset.reports.viewer import viewer_data
from arcset.text import without_folders

MOST_CONFUSED = 3  # runs whose confusions are shown
_LETTERS = 150  # that the names of all classes may have together, to be listed
_EXAMPLES = 3  # that are listed otherwise

Spread = Mapping[str, float]  # mean, low and high, over the seeds


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
    measures: Mapping[str, str] = field(default_factory=figure_meanings)
    verdict: str = ""
    command: str = ""
    unseen: Mapping[str, Assessment] = field(default_factory=dict)
    differences: Mapping[str, Sequence[Difference]] = field(default_factory=dict)
    verdicts: Sequence[tuple[str, str]] = ()  # measure, sentence
    shown: Sequence[str] = ()  # titles of the runs that the interactive view opens with
    more: Sequence[Section] = ()  # sections that others have made, after all of its own

    def write(self, out: Path, *, separate: bool = False) -> Path:
        """Write `out`/report.html, one file that needs nothing else, online or from disk.

        With `separate`, each still goes to `out`/pictures, too. The same input gives the same
        bytes: nothing in it is a date, a path or a machine's name.
        """
        sections = {**self._stills(), **self._never_seen()}
        for name, section in sections.items() if separate else ():
            for number, figure in enumerate(section.figures, 1):
                assert isinstance(figure, Figure)
                file = f"{name}-{number}.png" if number > 1 else f"{name}.png"
                save(figure, out / "pictures" / file)
        views = [*self.runs, *self.others]
        write_page(
            out / "report.html",
            "run_report.html",
            title=self.title,
            trained=_describe_trained(views),
            verdict=" ".join(
                filter(None, (self.verdict, self._answer(), self._warn_of_untested()))
            ),
            advice=advise(self.runs[0]) if len(self.runs) == 1 else (),
            table=self.comparison and summary_table(self.comparison, self.measures),
            data=self._viewer_data(),
            sections=[*sections.values(), *self.more],
            confused=self._confusions(),
            confused_caption=CONFUSIONS_CAPTION,
            timings=_timings(views),
            configurations=[(view.title, _configuration(view)) for view in views],
            command=self.command,
        )
        return out / "report.html"

    def _viewer_data(self) -> dict[str, Any]:
        """What the interactive view shows, and which runs are open at first."""
        groups = {}
        if self.others:
            groups = {view.title: "compared" for view in self.runs}
            groups |= {view.title: "in three dimensions" for view in self.others}
        data = viewer_data([*self.runs, *self.others], groups=groups)
        names = [run["name"] for run in data["runs"]]
        # Comparisons tend to go from the plainest loss onwards.
        ends = sorted({0, len(names) - 1}) if names else []
        data["shown"] = [names.index(name) for name in self.shown if name in names] or ends
        return data

    def _answer(self) -> str:
        """How good it is on the unseen: of a single run; several have sentences of their own."""
        if len(self.runs) > 1:
            return ""
        return verdict_on(self.runs[0], next(iter(self.unseen.values()), None))

    def _warn_of_untested(self) -> str:
        """What a reader must know where training left no image of the known classes over."""
        if all(view.selection.test is not None for view in self.runs):
            return ""
        return (
            "No image of the known classes was kept back from training: where a picture speaks of "
            "their test samples, it shows samples that were trained on."
        )

    def _confusions(self) -> list[dict[str, Any]]:
        """The worst confusions of the runs that were measured on the unseen."""
        confusions = []
        for view in self.runs[:MOST_CONFUSED]:
            if view.title not in self.unseen or view.unseen is None:
                continue
            decided = decision_threshold(view.run.thresholds)
            different, same = worst_confusions(view.unseen, decided and decided[0])
            confusions.append(
                {
                    "run": view.title if len(self.runs) > 1 else "",
                    "kinds": {"Different, and alike": different, "The same, and unlike": same},
                    "threshold": decided and f"Threshold: {decided[0]:.4f}, {decided[1]}.",
                }
            )
        return confusions

    def _stills(self) -> dict[str, Section]:
        """Every still that these runs have something to show in."""
        # Assessments have sections of their own about pairs.
        stills = plot_sections("runs", self.runs, without=("roc",) if self.unseen else ())
        if not self.others:
            return stills
        all_sections = {}
        for name, section in stills.items():
            all_sections[name] = section
            if name == "embedding":
                figures = [embedding_picture(self.others)]
                all_sections["sphere"] = replace(
                    section, title="In three dimensions", figures=figures
                )
        return all_sections

    def _never_seen(self) -> dict[str, Section]:
        """What is measured on classes held out, and which differences there are real."""
        sections = {
            f"unseen-{name}": replace(section, title=f"Never seen: {section.title}")
            for name, section in plot_sections("measures", self.unseen).items()
        }
        for name, section in plot_sections("differences", self.differences).items():
            rows = [("measure", "on classes never seen"), *self.verdicts]
            sections[f"unseen-{name}"] = replace(
                section, title="Which differences are real", rows=rows
            )
        return sections


def _describe_trained(views: Sequence[RunView]) -> list[dict[str, Any]]:
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


def summary_table(comparison: Mapping[str, Any], measures: Mapping[str, str]) -> dict[str, Any]:
    """Mean and spread over seeds by what is compared, for the page.

    comparison: as `arcset compare --json` prints it, with what is compared in "of" if no losses
    are. measures: what those that may be shown mean, in their order. The best mean is marked
    "best"; every other whose seeds reach into its range "near".
    """
    summary: Mapping[str, Mapping[str, Spread]] = comparison["summary"]
    columns = []
    for name, meaning in measures.items():
        spreads = {
            label: row[name]
            for label, row in summary.items()
            if row.get(name, {}).get("mean") is not None
        }
        if not spreads:
            continue
        measure = run_figures().get(name)
        lower = measure is not None and measure.lower_is_better
        heading = name.replace("_", " ")
        if measure is not None:
            heading = measure.short if measure.part == "known" else f"unseen {measure.title}"
        cells = _mark_spreads(spreads, lower)
        columns.append({"name": heading, "meaning": meaning, "lower": lower, "cells": cells})
    return {
        "of": comparison.get("of", "loss"),
        "seeds": len({run["seed"] for run in comparison["runs"]}),
        "labels": list(summary),
        "columns": columns,
    }


def _mark_spreads(spreads: Mapping[str, Spread], lower: bool) -> dict[str, dict[str, str]]:
    """The cells of one measure, all with as many digits."""

    def overlap(label: str, best: str) -> bool:
        one, other = spreads[label], spreads[best]
        return one["low"] <= other["high"] and other["low"] <= one["high"]

    means = {label: spread["mean"] for label, spread in spreads.items()}
    marks = mark_best(means, overlap, lower=lower)
    digits = 3 if all(abs(spread["high"]) < 10 for spread in spreads.values()) else 1
    cells = {}
    for label, spread in spreads.items():
        mean, low, high = (f"{spread[key]:.{digits}f}" for key in ("mean", "low", "high"))
        ends = f"{low}…{high}" if low != high else ""
        cells[label] = {"text": mean, "spread": ends, "mark": marks.get(label, "")}
    return cells
