"""What `arcset train` prints: what it chose before, and what came of it after."""

import shlex
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from arcset.cli.kept import kept_table
from arcset.cli.output import print_table, print_text
from arcset.data import ImageSet, Selection
from arcset.evaluation import Assessment, Thresholds
from arcset.evaluation.measures import measures_of
from arcset.recognition.verification import decide
from arcset.runs import Run, RunConfig
from arcset.runs.assess import shape_words
from arcset.text import plural
from arcset.training.card_figures import headline

__all__ = ["Outcome", "held_out_words", "settings_words", "threshold_words"]


def settings_words(config: RunConfig) -> str:
    """The settings that matter most, of a run whose data and loss are known."""
    loss = [config.loss]
    loss += [] if config.scale is None else [f"scale {config.scale:g}"]
    loss += [] if config.margin is None else [f"margin {config.margin:g}"]
    return "; ".join(
        [
            f"network {config.network}, {config.dim} dimensions",
            ", ".join(loss),
            f"{config.optimizer}, learning rate {config.learning_rate:g}, {config.schedule}",
            f"batches of {config.batch}, {plural(config.epochs, 'epoch')}",
            *([] if config.shape is None else [shape_words(config.shape)]),
        ]
    )


def held_out_words(selection: Selection) -> str:
    """Whom a run holds out, and what is left to train on."""
    held = [
        f"{_identities(part)} for {purpose}"
        for part, purpose in ((selection.validation, "validation"), (selection.unseen, "testing"))
        if part is not None
    ]
    told = f"held out: {', '.join(held) or 'no identity'}; trains on {_identities(selection.train)}"
    told += f", {plural(len(selection.train), 'image')}"
    if selection.test is not None:
        told += f"; {plural(len(selection.test), 'more image')} of them kept back"
    return told


def _identities(images: ImageSet) -> str:
    return plural(len(np.unique(images.labels)), "identity", "identities")


def threshold_words(thresholds: Thresholds) -> str:
    """The threshold that `arcset verify` takes where none is asked for, and where it comes from."""
    used = decide(1.0, thresholds)
    if used.rough or used.far is None:
        return f"{used.threshold:.4f}, rough: the equal-error threshold of {thresholds.origin}"
    return f"{used.threshold:.4f} for a FAR of {used.far:.3g}, from {thresholds.origin}"


@dataclass(frozen=True)
class Outcome:
    """A trained run with everything that was measured.

    missing: what was not, and why. kept: of the run that it began from, None without one.
    is_drawn: whether there is a report.
    """

    run: Run
    measures: dict[str, float | None]
    assessment: Assessment | None
    thresholds: Thresholds | None
    kept: dict[str, Any] | None
    missing: dict[str, str]
    is_drawn: bool

    def json(self) -> dict[str, Any]:
        """As one object."""
        used = None if self.thresholds is None else decide(1.0, self.thresholds)
        figures = [] if self.assessment is None else headline(self.assessment)
        content = {
            "run": str(self.run.path),
            "config": self.run.config.model_dump(mode="json"),
            **self.measures,
            "unseen": {
                figure.name: {"value": figure.value, "low": figure.low, "high": figure.high}
                for figure in figures
            },
            "threshold": None if used is None else used.threshold,
            "far": None if used is None else used.far,
            "rough": None if used is None else used.rough,
            "missing": self.missing,
            "report": str(self.run.path / "report.html") if self.is_drawn else None,
            "card": str(self.run.path / "README.md"),
        }
        return content if self.kept is None else {**content, "forgetting": self.kept}

    def show(self) -> None:
        """A table and a few lines on stdout: what counts most comes first."""
        table = Table(
            *("measure", "value", "95 % interval", "what it says"),
            title=Text(str(self.run.path)),
            title_justify="left",
        )
        for figure in [] if self.assessment is None else headline(self.assessment):
            table.add_row(f"unseen {figure.label}", *figure.format(), figure.meaning)
        for known in measures_of("known"):
            value = self.measures[known.key]
            told = "–" if value is None else f"{value:.4g}"
            table.add_row(known.key, told, "", known.meaning)
        print_table(table)
        if self.kept is not None:
            print_table(kept_table(self.kept))
        if self.is_drawn:
            print_text(f"report     {self.run.path / 'report.html'}")
        print_text(f"card       {self.run.path / 'README.md'}")
        if self.thresholds is not None:
            told = threshold_words(self.thresholds)
            print_text(f"threshold  {self.run.path / 'threshold.json'}: {told}")
        for place, command in enumerate(self._next()):
            print_text(f"{'next' if place == 0 else '':<10} {command}")

    def _next(self) -> list[str]:
        """What to do with it; of vectors there are no photos."""
        run = shlex.quote(str(self.run.path))
        if self.run.config.shape is None or len(self.run.config.shape) != 3:
            return [f"arcset evaluate {run}"]
        return [
            f"arcset verify {run} A.jpg B.jpg",
            f"arcset enroll people.db photos/ --model {run}",
            f"arcset export {run} --out {shlex.quote(f'{self.run.path.name}.onnx')}",
        ]
