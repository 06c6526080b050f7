"""What a sweep has tried and found: the points of its grid, their order, and the best of them."""

import hashlib
import math
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from arcset.errors import TrainingError
from arcset.evaluation import Assessment, Difference
from arcset.evaluation.assessment import FEW
from arcset.evaluation.measures import (
    Measure,
    figure_meanings,
    meaning,
    short_name,
    validated,
)
from arcset.files import finite
from arcset.runs import RunConfig
from arcset.training.verdict import untold, verdicts

__all__ = ["SHOWN", "Point", "Sweep", "all_figures"]

#: Points, best first, that pictures show and that are compared with the best.
SHOWN = 8
_LONGEST = 100  # letters of a folder's name


def all_figures() -> dict[str, str]:
    """Every figure of a run, with what it means: on the validation identities first."""
    validation = {
        f"validation_{key}": meaning(entry.strict_name) for key, entry in validated().items()
    }
    return {**validation, **figure_meanings()}


@dataclass(frozen=True)
class Point:
    """One point of a grid: the values by which it differs from others, and what is trained there.

    The seed of `config` is replaced by each of the sweep's.

        >>> Point({"margin": 0.2, "augment": ["flip", "noise"]}, RunConfig(data="orl")).name
        'margin=0.2,augment=flip+noise'
    """

    values: dict[str, Any]
    config: RunConfig

    @property
    def name(self) -> str:
        """The values in words, as `--set` takes them."""
        return ",".join(f"{key}={text}" for key, text in self.told().items())

    def told(self) -> dict[str, str]:
        """Each value as `--set` takes it."""
        return {key: _told(key, value) for key, value in self.values.items()}

    @property
    def folder(self) -> str:
        """The name as a folder's, which ends in -SEED; a long one is cut and made distinct."""
        safe = re.sub(r"[^A-Za-z0-9.,=_+-]+", "-", self.name).strip("-.")
        if len(safe) <= _LONGEST:
            return safe
        return f"{safe[: _LONGEST - 9]}-{hashlib.sha256(self.name.encode()).hexdigest()[:8]}"


def _told(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ("x" if key == "size" else "+").join(map(str, value)) or "none"
    return "none" if value is None else str(value)


@dataclass
class Sweep:
    """The outcome.

    grid: the values of each setting that varies. runs: one entry per run, in the order trained; one
    whose training broke has `failed`, a sentence, instead of figures. unseen: by point, each seed's
    assessment on the classes held out. identities: how many there are for validation.
    """

    grid: dict[str, list[Any]]
    points: list[Point]
    seeds: int
    runs: list[dict[str, Any]] = field(default_factory=list)
    unseen: dict[str, list[Assessment]] = field(default_factory=dict)
    identities: int = 0

    @property
    def complete(self) -> list[Point]:
        """The points all of whose runs came to their end."""
        return [point for point in self.points if len(self._finished(point)) == self.seeds]

    @property
    def measure(self) -> str:
        """The figure that decides: on the validation identities if there are some, or else on the
        unseen classes; that of `best_by` where it can be told.

        Raises `TrainingError` where no point is complete.
        """
        if not self.complete:
            failed = [run["failed"] for run in self.runs if "failed" in run]
            raise TrainingError(f"no point of the grid could be trained: {(failed or ['?'])[0]}")
        best_by = self.points[0].config.best_by
        names = (f"validation_{best_by}", "validation_map", f"unseen_{best_by}", "unseen_map")
        runs = [run for point in self.complete for run in self._finished(point)]
        able = [name for name in names if all(run.get(name) is not None for run in runs)]
        return (*able, "unseen_auc")[0]

    @property
    def chosen_by(self) -> str:
        """The figure that decides, in words: validation map, or unseen map."""
        return self.measure.replace("_", " ")

    @property
    def validated(self) -> bool:
        """Whether identities decide that are not those of the last judgement."""
        return self.measure.startswith("validation")

    @cached_property
    def order(self) -> list[Point]:
        """The complete points, best first; of equals, the one that the grid names first."""
        means = {point.name: self._spread(point, self.measure)["mean"] for point in self.complete}
        return sorted(self.complete, key=lambda point: -means[point.name])

    @property
    def best(self) -> dict[str, Any]:
        """The first in order: its name, values, mean of the figure that decides, its runs, and the
        command that trains it again."""
        point = self.order[0]
        runs = [run["run"] for run in self._finished(point)]
        command = ["arcset", "train", "--config", str(Path(runs[0]) / "config.toml")]
        return {
            "name": point.name,
            "values": point.values,
            "score": self._spread(point, self.measure)["mean"],
            "runs": runs,
            "command": shlex.join([*command, "--out", "runs/best"]),
        }

    @property
    def summary(self) -> dict[str, dict[str, dict[str, float]]]:
        """NAME → FIGURE → mean, low, high over the seeds, best point first."""
        return {
            point.name: {
                name: self._spread(point, name)
                for name in (*all_figures(), "seconds")
                if all(run.get(name) is not None for run in self._finished(point))
            }
            for point in self.order
        }

    @property
    def note(self) -> str:
        """How the order came about, and what it is worth."""
        entry = validated()[self.measure.partition("_")[2]]
        title = entry.title
        score = self.best["score"]
        first = sum(self._spread(point, self.measure)["mean"] == score for point in self.order)
        equal = f" The first {first} are equal, and stand as in the grid." if first > 1 else ""
        if self.validated:
            few = " (few, so that the order is rough)" if self.identities < FEW else ""
            return (
                f"Sorted by {title} on {self.identities} validation identities{few}; the unseen "
                f"classes took no part in the choice.{equal}"
            )
        return (
            f"There are no validation identities: sorted by {title} on the unseen classes, which "
            "flatters the first; hold identities out for validation, as with --hold-out 0.1,0.1, "
            f"and the choice is made on those.{equal}"
        )

    @cached_property
    def differences(self) -> dict[str, Difference]:
        """How much better the best is on the unseen classes than each of the next, in the figure
        most like the one that decided; empty where that cannot be told honestly.

        Without validation identities the best was picked from all on these very classes, so that
        all must be compared.
        """
        shown = self.order[:SHOWN]
        if not self.validated and len(shown) < len(self.order):
            return {}
        assessed = {point.name: self.unseen.get(point.name, []) for point in shown}
        if not all(assessed.values()):
            return {}
        wanted = self._judged.part + "." + self._judged.full_name
        for verdict in verdicts(assessed):
            if verdict.measure == wanted:
                first, *others = assessed
                return {other: verdict.between(assessed, first, other) for other in others}
        return {}

    @property
    def sentence(self) -> str:
        """The differences in words, with how sure they are; nothing where there are none."""
        shown = [
            f"{difference.sentence().replace(' by', f' than {name} by', 1)}"
            for name, difference in self.differences.items()
            if difference.shown
        ]
        alike = {name: found for name, found in self.differences.items() if not found.shown}
        if alike:
            shown.append(f"no difference to {', '.join(alike)} is shown{untold(alike.values())}")
        if not shown:
            return ""
        identities = self.unseen[self.order[0].name][0].identities
        over = "classes and seeds" if self.seeds > 1 else "classes, about these runs and no others"
        rough = " (few classes: they are rough)" if identities < FEW else ""
        title = short_name(self._judged.full_name)
        return (
            f"On {identities} classes never seen, {self.order[0].name} in {title}: "
            f"{'; '.join(shown)}. 95 % intervals over {over}{rough}."
        )

    @property
    def _judged(self) -> Measure:
        """The measure on unseen classes that is most like the one that decided."""
        return validated()[self.measure.partition("_")[2]]

    def json(self) -> dict[str, Any]:
        """As one object; infinite values, which JSON lacks, become None."""
        content = {
            "grid": self.grid,
            "chosen_by": self.chosen_by,
            "best": self.best,
            "runs": self.runs,
            "summary": self.summary,
            "note": self.note,
        }
        return dict(finite(content))

    def _finished(self, point: Point) -> list[dict[str, Any]]:
        return [r for r in self.runs if r["name"] == point.name and "failed" not in r]

    def _spread(self, point: Point, name: str) -> dict[str, float]:
        return _spread(run[name] for run in self._finished(point))


def _spread(values: Iterable[float]) -> dict[str, float]:
    """Mean, lowest and highest."""
    found = list(values)
    return {"mean": math.fsum(found) / len(found), "low": min(found), "high": max(found)}
