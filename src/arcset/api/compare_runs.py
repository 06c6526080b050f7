"""`compare`: losses, or a grid of settings, trained on the same data and seeds."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from arcset.api.train_run import Data, layers_of, read_given
from arcset.evaluation import Difference
from arcset.evaluation.measures import figure_meanings, meaning
from arcset.launch import is_main_process
from arcset.reports import RunReport, RunView
from arcset.runs import Run
from arcset.runs.settings import resolve_settings
from arcset.training.compare import Comparison, compare_variants
from arcset.training.watchers import Lines, Watcher


def compare(
    data: Data,
    *,
    losses: Sequence[str] = ("softmax", "normface", "arcface"),
    grid: Mapping[str, Sequence[Any]] | None = None,
    seeds: int | None = None,
    out: Path | str | None = None,
    recipe: str | None = None,
    config: Path | str | None = None,
    start: Run | Path | str | None = None,
    device: str = "auto",
    force: bool = False,
    report: bool = True,
    watcher: Watcher | None = None,
    command: str = "",
    **settings: Any,
) -> Comparison:
    """Train several losses, or a grid of settings, on the same data and seeds, and compare them.

    Does what `arcset compare` does: the runs, comparison.json and report.html are written to `out`,
    runs/compare-DATE-TIME if left out. The same call goes on with what is there.

    Args:
        losses: each may carry options and settings that suit it: "softmax:bias=false".
        grid: instead of losses, the values of settings; every combination is trained, the best
            chosen on the validation identities, and it alone measured on the unseen ones.
        seeds: runs of each: 3, or 1 in a grid.
        command: that makes the comparison again, for the report.
        data, recipe, config, start, device, force, report, watcher, settings: as of `train`.

    Example:
        >>> comparison = compare("faces/", losses=["softmax", "arcface"])  # doctest: +SKIP
        >>> comparison.summary["arcface"]["unseen_auc"]  # doctest: +SKIP
        {'mean': 0.93, 'low': 0.92, 'high': 0.94}
    """
    watcher = watcher or Lines()
    folder = Path(out or f"runs/compare-{datetime.now():%Y%m%d-%H%M%S}")
    layers = layers_of(data, settings, recipe=recipe, config=config, start=start)
    dataset = None
    if not isinstance(data, str | Path):
        dataset = read_given(data, resolve_settings(layers).config, watcher)
    try:
        outcome = compare_variants(
            layers,
            folder,
            losses=() if grid else losses,
            grid=grid,
            seeds=(1 if grid else 3) if seeds is None else seeds,
            device=device,
            force=force,
            watcher=watcher,
            dataset=dataset,
        )
    except KeyboardInterrupt:
        again = f"command goes on with --out {folder}" if command else f"call with out={folder}"
        watcher.noted(f"stopped; the same {again}")
        raise
    if report and is_main_process():
        title = outcome.variants[0].config.data
        with watcher.working("drawing the report"):
            comparison_report(
                outcome,
                title=f"{Path(title).name}: {' × '.join(grid) if grid else ', '.join(losses)}",
                command=command or shlex.join(["arcset", "compare", title]),
            ).write(folder)
    return outcome


def comparison_report(outcome: Comparison, **options: Any) -> RunReport:
    """The report: of losses, their first runs side by side; of a grid, its table and the best."""
    ranking, content = outcome.ranking, outcome.json()
    views = [RunView(outcome.path(one.label, 0), one.label) for one in ranking]
    if outcome.grid is not None:
        decides = outcome.measure
        meanings = {
            f"validation_{decides.key}": f"{meaning(decides.full_name)}, on validation identities",
            **figure_meanings(),
        }
        return RunReport(
            runs=views[:1],
            comparison={**content, "of": "variant"},
            measures=meanings,
            unseen=dict(zip([ranking[0].label], outcome.winner, strict=False)),
            verdict=" ".join([outcome.note, *outcome.sentences()]),
            **options,
        )
    differences: dict[str, list[Difference]] = {}
    if verdicts := outcome.verdicts:
        best = verdicts[0].best
        for other in verdicts[0].differences:
            pairs = [verdict.between(best, other) for verdict in verdicts]
            differences[f"{best} against {other}"] = pairs
    return RunReport(
        runs=views,
        comparison=content,
        measures=figure_meanings(),
        unseen={label: first for label, (first, *_) in outcome.assessments.items()},
        differences=differences,
        verdicts=[(verdict.title, verdict.sentence()) for verdict in verdicts],
        **options,
    )
