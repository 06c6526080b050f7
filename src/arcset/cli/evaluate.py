"""`arcset evaluate`: how well an embedding recognizes what it has never seen."""

import shlex
import sys
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from arcset.cli import options as o
from arcset.cli.output import print_json, print_text, say, tell_skipped, working
from arcset.cli.train_outcome import threshold_words
from arcset.data import Split
from arcset.data.embeddings import holds_embeddings
from arcset.errors import InputError, OptionError
from arcset.evaluation import Assessment, Difference, Thresholds, differences
from arcset.files import finite, write_text
from arcset.reports.measures import write_evaluation
from arcset.runs import Run
from arcset.runs.assess import PARTS, Judged, judge_file, judge_run, thresholds_of
from arcset.runs.data import selection_of
from arcset.training.card_figures import headline
from arcset.training.judge_pairs import judge_pairs

__all__ = ["evaluate"]


def evaluate(
    source: Annotated[
        Path,
        typer.Argument(
            help="Folder of a trained run, or embeddings: .npz, .parquet, or their folder."
        ),
    ],
    data: Annotated[
        str | None,
        typer.Argument(
            help="For a run, other data to judge it on: a named dataset, a folder or the like, or "
            "pairs of faces as InsightFace's lfw.bin has them. Its own if left out."
        ),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(
            help=f"Of the run's own data: {', '.join(PARTS)}. Identities held out if left out."
        ),
    ] = None,
    split: Annotated[
        Path | None,
        typer.Option(help="For embeddings: judge the split's test identities, tune on validation."),
    ] = None,
    validation: Annotated[
        Path | None,
        typer.Option(help="For embeddings: a second file, of other identities, for thresholds."),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="A second run or file on the same identities, compared.")
    ] = None,
    allow_overlap: Annotated[
        bool,
        typer.Option(
            "--allow-overlap", help="Judge identities that were in training, and mark the report."
        ),
    ] = False,
    intervals: Annotated[
        bool, typer.Option("--intervals/--no-intervals", help="95 % intervals over identities.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Of trials, episodes and intervals.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report; RUN/evaluation, FILE-evaluation.")
    ] = None,
    device: o.Device = "auto",
    report: o.Report = True,
    json: o.Json = False,
) -> None:
    """Judge an embedding on identities that took no part in training.

    Verification, identification with unknowns, retrieval, few-shot, angles; with intervals, and
    with thresholds from validation identities where the data were split that way.

    Example: arcset evaluate runs/orl --against runs/orl-softmax
    """
    if data is not None and data.endswith(".bin"):
        _show_pairs(source, Path(data), device, json)
        return
    sources = [source] if against is None else [source, against]
    if against is not None and not intervals:
        raise OptionError("--against compares draws of identities: leave out --no-intervals")
    if against is not None and validation is not None:
        raise OptionError(
            "--validation holds embeddings of one model only; with --against, name a --split"
        )
    judged: dict[str, Judged] = {}
    for path in sources:
        with working(f"embedding {path}"):
            found = _judged(path, data, part, split, validation, device)
        tell_skipped(found.skipped)
        if not allow_overlap:
            found.refuse_overlap()
        judged[found.title if found.title not in judged else f"{found.title} (2)"] = found
    _check_alike(judged)
    assessments: dict[str, Assessment] = {}
    for title, found in judged.items():
        with working(f"measuring {title}"):
            assessments[title] = found.assess(intervals=intervals, seed=seed)
    first = next(iter(judged))
    compared = [] if against is None else differences(*assessments.values())
    place = out or _place(source)
    notes = {title: found.note for title, found in judged.items() if found.note}
    note = " ".join(f"{title}: {text}" if against else text for title, text in notes.items())
    content: dict[str, Any] = {"note": note, **_content(assessments, compared)}
    write_text(place / "evaluation.json", dumps(finite(content), indent=2) + "\n")
    kept = (source if _is_run(source) else place) / "threshold.json"
    thresholds = assessments[first].thresholds
    if thresholds is None and _is_run(source) and not kept.exists():
        run = Run.open(source)  # trained before thresholds came with training
        thresholds = thresholds_of(run, selection_of(run), device=device)
    written = ["evaluation.json", *(["report.html"] if report else [])]
    if thresholds is not None:
        thresholds.save(kept)
    elif not _is_run(source):
        kept.unlink(missing_ok=True)  # of an earlier evaluation, with other validation identities
    if report:
        with working("drawing the report"):
            write_evaluation(
                place,
                assessments,
                title=f"{' against '.join(judged)}: {judged[first].what}",
                command=shlex.join(["arcset", *sys.argv[1:]]),
                note=note,
                differences={" against ".join(judged): compared} if compared else None,
            )
    if json:
        print_json(content)
        return
    if note:
        say(f"NOTE: {note}")
    for title, assessment in assessments.items():
        made = thresholds if title == first else assessment.thresholds
        print_text(f"{_summary(title, assessment, made)}\n\n{assessment.table()}\n")
    if compared:
        print_text(f"{' against '.join(judged)}, on the same draws of identities\n")
    for item in compared:
        print_text(f"  {item.name:<22}{item.sentence()}")
    say(f"wrote {' and '.join(written)} in {place}{f', and {kept}' if thresholds else ''}")


def _summary(title: str, assessment: Assessment, thresholds: Thresholds | None) -> str:
    """The figures that matter most and the threshold, before all others."""
    lines = []
    for figure in headline(assessment):
        value, interval = figure.format()
        lines.append(f"  {figure.label:<20}{value:>10}   {interval}")
    if thresholds is not None:
        lines.append(f"  {'threshold':<20}{threshold_words(thresholds)}")
    elif "thresholds" in assessment.missing:
        lines.append(f"  {'threshold':<20}none: {assessment.missing['thresholds']}")
    return "\n".join([title, *lines])


def _show_pairs(source: Path, pairs: Path, device: str, as_json: bool) -> None:
    with working(f"embedding {pairs}"):
        found = judge_pairs(Run.open(source), pairs, device=device)
    if as_json:
        print_json(found.json())
    else:
        print_text(found.table())


def _judged(
    path: Path,
    data: str | None,
    part: str | None,
    split: Path | None,
    validation: Path | None,
    device: str,
) -> Judged:
    if holds_embeddings(path):
        if data is not None or part is not None:
            raise OptionError(f"{path} holds embeddings: a dataset or --part is for runs")
        chosen = None if split is None else Split.load(split)
        return judge_file(path, split=chosen, validation=validation)
    if split is not None or validation is not None:
        raise OptionError("--split and --validation are for files; a run knows its own split")
    return judge_run(Run.open(path), data, part=part, device=device)


def _check_alike(judged: dict[str, Judged]) -> None:
    first, *others = judged.values()
    for other in others:
        ours, theirs = first.embeddings, other.embeddings
        if not np.array_equal(ours.names, theirs.names):
            raise InputError(
                f"{first.title} has {len(ours):,} samples of {len(ours.class_names):,} identities, "
                f"and {other.title} {len(theirs):,} of {len(theirs.class_names):,}, or they stand "
                "in another order; a comparison needs the same samples, row by row"
            )


def _content(assessments: dict[str, Assessment], compared: list[Difference]) -> dict[str, Any]:
    if len(assessments) == 1:
        return next(iter(assessments.values())).json()
    return {
        "models": {title: assessment.json() for title, assessment in assessments.items()},
        "differences": [item.json() for item in compared],
    }


def _is_run(source: Path) -> bool:
    """Whether results belong into it; a folder of embeddings stays as it is."""
    return source.is_dir() and not holds_embeddings(source)


def _place(source: Path) -> Path:
    if _is_run(source):
        return source / "evaluation"
    name = source.name if source.is_dir() else source.stem
    return source.with_name(f"{name}-evaluation")
