"""All pictures of one or several runs, gathered into a report."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from arcset.errors import InputError
from arcset.evaluation import Assessment, Difference
from arcset.reports import findings, stills
from arcset.reports.measure_plots import plot_sections
from arcset.reports.report import Section, write_report
from arcset.reports.style import save
from arcset.reports.view import RunView

__all__ = ["Picture", "Story"]

logger = logging.getLogger("arcset")


@dataclass(frozen=True)
class Picture:
    """A still of the story: how to draw it, and what to say under it."""

    name: str  # of the file
    title: str
    caption: tuple[str, str]  # what it means, when it misleads
    draw: Callable[[], Figure]
    rows: Callable[[], Sequence[Sequence[str]]] = tuple  # a table below it


@dataclass(frozen=True)
class Story:
    """One or several runs on the same data, told in pictures.

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

    def pictures(self) -> list[Picture]:
        """Every still that these runs have something to show in."""
        runs = self.runs
        classifying = [view for view in runs if view.loss.classifies]
        found = [self._still("embedding", "Where the samples lie", runs)]
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
        found.append(
            Picture(
                "margins",
                "What each margin does to the target",
                stills.CAPTIONS["margin"],
                stills.margin_picture,
            )
        )
        found.append(
            Picture(
                "data",
                "The training images",
                stills.CAPTIONS["sheet"],
                lambda: stills.sheet_picture(runs[0].selection.train),
            )
        )
        return found

    def _untested(self) -> str:
        """What a reader must know where training left no image of the known classes over."""
        if all(view.selection.test is not None for view in self.runs):
            return ""
        return (
            "No image of the known classes was kept back from training: where a picture speaks of "
            "their test samples, it shows samples that were trained on."
        )

    def write(self, out: Path, *, separate: bool = False) -> Path:
        """Write `out`/report.html; with `separate`, also each still to `out`/pictures."""
        sections = []
        for picture in self.pictures():
            try:
                figure, rows = picture.draw(), picture.rows()
            except InputError as error:  # too few classes or samples to show anything in
                logger.info("left out %r: %s", picture.title, error)
                continue
            if separate:
                save(figure, out / "pictures" / f"{picture.name}.png")
            meaning, misleads = picture.caption
            sections.append(Section(picture.title, [figure], meaning, misleads, rows))
        for name, section in self._never_seen().items():
            if separate:
                for number, still in enumerate(section.figures):
                    assert isinstance(still, Figure)
                    more = f"-{number + 1}" if number else ""
                    save(still, out / "pictures" / f"unseen-{name}{more}.png")
            sections.append(section)
        sections += self.more
        groups = {"compared": [view.title for view in self.runs]}
        if self.others:
            groups["in three dimensions"] = [view.title for view in self.others]
        write_report(
            out / "report.html",
            title=self.title,
            views=[*self.runs, *self.others],
            comparison=self.comparison,
            sections=sections,
            verdict=" ".join(text for text in (self.verdict, self._untested()) if text),
            measures=self.measures,
            groups=groups if self.others else None,
            shown=self.shown,
            command=self.command,
        )
        return out / "report.html"

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

    def _still(
        self, kind: str, title: str, views: Sequence[RunView], name: str | None = None
    ) -> Picture:
        draw = {
            "embedding": stills.embedding_picture,
            "angle": stills.angle_picture,
            "roc": stills.roc_picture,
        }[kind]
        return Picture(name or kind, title, stills.CAPTIONS[kind], lambda: draw(views))

    def _no_threshold(self) -> list[Picture]:
        """The worst triple of the first run, and of the last one where there are several."""
        meaning, misleads = findings.CAPTIONS["no_threshold_picture"]
        table = findings.CAPTIONS["no_threshold_table"]
        first, last = self.runs[0], self.runs[-1]
        caption = (f"{meaning} {table[0]}", f"{misleads} {table[1]}")
        pictures = [
            Picture(
                "no-threshold",
                "Pairs that no threshold tells apart",
                caption,
                lambda: findings.no_threshold_picture(first, "euclidean"),
                lambda: findings.no_threshold_table(self.runs),
            )
        ]
        if last is not first:
            pictures.append(
                Picture(
                    "no-threshold-last",
                    f"The same for {last.title}, by cosine",
                    (meaning, misleads),
                    lambda: findings.no_threshold_picture(last, "cosine"),
                )
            )
        return pictures

    def _confidence(self, classifying: Sequence[RunView]) -> list[Picture]:
        first = classifying[0]
        return [
            Picture(
                "confidence",
                "How sure a classifier is of what it cannot know",
                findings.CAPTIONS["confidence_picture"],
                lambda: findings.confidence_picture(classifying),
            ),
            Picture(
                "confident-mistakes",
                f"The surest mistakes of {first.title}",
                findings.CAPTIONS["confident_mistakes_picture"],
                lambda: findings.confident_mistakes_picture(first),
            ),
        ]

    def _bias(self) -> list[Picture]:
        """Softmax with and without bias, where both are among the runs."""
        softmax = [view for view in self.runs if view.config.loss == "softmax"]
        with_bias = [view for view in softmax if view.loss.biases is not None]
        without = [view for view in softmax if view.loss.biases is None]
        if not with_bias or not without:
            return []
        return [
            Picture(
                "bias",
                "What the bias learns",
                findings.CAPTIONS["bias_picture"],
                lambda: findings.bias_picture(with_bias[0], without[0]),
            )
        ]
