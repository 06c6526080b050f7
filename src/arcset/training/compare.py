"""Several losses on the same data with the same seeds, side by side."""

import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from arcset.data import Dataset
from arcset.errors import OptionError
from arcset.evaluation import Assessment, Difference
from arcset.evaluation.measures import run_figures
from arcset.files import finite
from arcset.losses import loss_options
from arcset.runs import Run, RunConfig
from arcset.runs.assess import assess_unseen, measure_run
from arcset.runs.data import selection_for
from arcset.runs.model import add_data_settings, build_model
from arcset.runs.settings import TRAINED, parse_loss
from arcset.training.loop import train
from arcset.training.progress import Watcher
from arcset.training.start import check_start, earlier_of
from arcset.training.verdict import Verdict, verdicts

__all__ = ["Comparison", "LossSpec", "compare"]


@dataclass(frozen=True)
class LossSpec:
    """A loss to compare: its name, options of its own, and the label it goes by.

    Some settings of training may stand among the options, as each loss has its own best.

    >>> LossSpec.parse("softmax:bias=false:learning_rate=0.2")
    LossSpec(loss='softmax', options={'bias': False, 'learning_rate': 0.2}, label=...)
    """

    loss: str
    options: dict[str, Any] = field(default_factory=dict)
    label: str = ""

    @classmethod
    def parse(cls, text: str) -> "LossSpec":
        """Read NAME or NAME:OPTION=VALUE:OPTION=VALUE."""
        return cls(*parse_loss(text), text.strip())

    @property
    def folder(self) -> str:
        """The label as a folder name."""
        return re.sub(r"[^A-Za-z0-9.=_-]+", "-", self.label or self.loss).strip("-")

    def applied(self, config: RunConfig) -> tuple[RunConfig, list[str]]:
        """`config` for this loss, and which of its general options the loss does not have."""
        own = _of_loss(self.options)
        known = loss_options(self.loss, **own)
        settings = {key: value for key, value in self.options.items() if key not in own}
        general = {"scale": config.scale, "margin": config.margin}
        ignored = [key for key, value in general.items() if value is not None and key not in known]
        direct = {key: own.pop(key, None if key in ignored else general[key]) for key in general}
        return config.replace(loss=self.loss, options=own, **direct, **settings), ignored


def _of_loss(options: dict[str, Any]) -> dict[str, Any]:
    """Without the settings of training that may stand among them."""
    return {key: value for key, value in options.items() if key not in TRAINED}


@dataclass
class Comparison:
    """The outcome: one entry per run, and mean, lowest and highest over the seeds per loss.

    unseen: by loss, each seed's assessment on the classes held out; empty where none were.
    """

    runs: list[dict[str, Any]] = field(default_factory=list)
    unseen: dict[str, list[Assessment]] = field(default_factory=dict)

    @property
    def summary(self) -> dict[str, dict[str, dict[str, float]]]:
        """LOSS → MEASURE → mean, low, high over the seeds; measures a loss lacks are left out."""
        found: dict[str, dict[str, dict[str, float]]] = {}
        for label in dict.fromkeys(run["loss"] for run in self.runs):
            ours = [run for run in self.runs if run["loss"] == label]
            found[label] = {}
            for name in (*run_figures(), "seconds"):
                values = [run[name] for run in ours if run.get(name) is not None]
                if values:
                    mean = math.fsum(values) / len(values)
                    found[label][name] = {"mean": mean, "low": min(values), "high": max(values)}
        return found

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """By measure on the unseen classes: which loss is ahead, and of whom it is shown."""
        return verdicts(self.unseen)

    def told(self) -> dict[str, Any]:
        """What a report tells about the classes never seen: the first seed's assessments, the
        differences between the loss that is ahead in the first verdict and each other, and all
        verdicts in words."""
        differences: dict[str, list[Difference]] = {}
        if self.verdicts:
            best = self.verdicts[0].best
            for other in self.unseen:
                if other != best:
                    found = [verdict.between(self.unseen, best, other) for verdict in self.verdicts]
                    differences[f"{best} against {other}"] = found
        return {
            "unseen": {label: found[0] for label, found in self.unseen.items()},
            "differences": differences,
            "verdicts": [(verdict.title, verdict.sentence()) for verdict in self.verdicts],
        }

    def json(self) -> dict[str, Any]:
        """As one object; infinite values, which JSON lacks, become None."""
        return {
            "runs": finite(self.runs),
            "summary": finite(self.summary),
            "verdicts": finite([verdict.json() for verdict in self.verdicts]),
        }


def compare(
    specs: list[LossSpec],
    config: RunConfig,
    seeds: int,
    out: Path | str,
    *,
    device: str = "auto",
    force: bool = False,
    watcher: Watcher | None = None,
    dataset: Dataset | None = None,
) -> Comparison:
    """Train every loss with seeds 0 … seeds − 1 into `out`/LABEL-SEED, and measure each.

    `dataset` is the data, where somebody has read it already. Where the runs begin from another,
    whom that one held out stays so, and nobody judges whom it knew.
    """
    labels = [spec.label or spec.loss for spec in specs]
    twice = {label for label in labels if labels.count(label) > 1}
    if twice:
        raise OptionError(f"{min(twice)!r} is named more than once among the losses")
    if seeds < 1:
        raise OptionError(f"seeds must be at least 1, not {seeds}")
    configs = [spec.applied(config)[0] for spec in specs]
    selection = selection_for(config, dataset=dataset, earlier=earlier_of(config))
    for spec, chosen in zip(specs, configs, strict=True):
        # A wrong option, or a folder in the way, is found now and not after the first hour.
        network, _ = build_model(add_data_settings(chosen, selection), training=True)
        for seed in range(seeds):
            place = Path(out) / f"{spec.folder}-{seed}"
            Run.check_place(place, force=force)
            check_start(add_data_settings(chosen, selection), network, place)
    comparison = Comparison()
    for spec, label, chosen in zip(specs, labels, configs, strict=True):
        for seed in range(seeds):
            place = Path(out) / f"{spec.folder}-{seed}"
            seeded = chosen.replace(seed=seed)
            trained = train(
                seeded, place, device=device, force=force, watcher=watcher, selection=selection
            )
            unseen = assess_unseen(trained)
            if unseen is not None:
                comparison.unseen.setdefault(label, []).append(unseen)
            comparison.runs.append(_entry(trained, label, measure_run(trained, unseen)))
    return comparison


def _entry(run: Run, label: str, measures: dict[str, float | None]) -> dict[str, Any]:
    config = run.config
    return {
        "loss": label,
        "seed": config.seed,
        "dim": config.dim,
        "scale": config.scale,
        "margin": config.margin,
        "options": config.options,
        **measures,
        "seconds": round(math.fsum(line["seconds"] for line in run.metrics()), 2),
        "run": str(run.path),
    }
