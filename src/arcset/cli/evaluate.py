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
from arcset.reports.evaluation_report import write_evaluation
from arcset.runs.assess import (
    PARTS,
    EvaluationData,
    evaluation_data,
    make_run_thresholds,
    measure_pairs,
    read_evaluation_data,
)
from arcset.runs.model import TrainedRun
from arcset.training.card_figures import headline

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
        with working(f"embedding {data}"):
            pairs = measure_pairs(TrainedRun.load(source, device=device), Path(data))
        if json:
            print_json(pairs.json())
        else:
            print_text(pairs.table())
        return
    if against is not None and not intervals:
        raise OptionError("--against compares draws of identities: leave out --no-intervals")
    if against is not None and validation is not None:
        raise OptionError(
            "--validation holds embeddings of one model only; with --against, name a --split"
        )
    run, contents = None, []
    for path in [source] if against is None else [source, against]:
        with working(f"embedding {path}"):
            if holds_embeddings(path):
                contents.append(_read_file(path, data, part, split, validation))
            else:
                if split is not None or validation is not None:
                    raise OptionError(
                        "--split and --validation are for files; a run knows its own split"
                    )
                trained = TrainedRun.load(path, device=device)
                run = run or (trained if path == source else None)
                contents.append(evaluation_data(trained, data, part=part))
        tell_skipped(contents[-1].skipped)
        if not allow_overlap:
            contents[-1].refuse_overlap()
    _check_same_samples(contents)
    assessments: dict[str, Assessment] = {}
    for content in contents:
        with working(f"measuring {content.title}"):
            title = f"{content.title} (2)" if content.title in assessments else content.title
            assessments[title] = content.assess(intervals=intervals, seed=seed)
    gains = [] if against is None else differences(*assessments.values())
    out = out or _default_folder(source)
    note = " ".join(
        f"{title}: {content.note}" if against else content.note
        for title, content in zip(assessments, contents, strict=True)
        if content.note
    )
    result: dict[str, Any] = {"note": note, **_json(assessments, gains)}
    write_text(out / "evaluation.json", dumps(finite(result), indent=2) + "\n")
    first = next(iter(assessments.values()))
    thresholds, threshold_file = _write_thresholds(first.thresholds, run, out)
    if report:
        with working("drawing the report"):
            write_evaluation(
                out,
                assessments,
                title=f"{' against '.join(assessments)}: {contents[0].description}",
                command=shlex.join(["arcset", *sys.argv[1:]]),
                note=note,
                differences={" against ".join(assessments): gains} if gains else None,
            )
    if json:
        print_json(result)
        return
    if note:
        say(f"NOTE: {note}")
    for title, assessment in assessments.items():
        shown = thresholds if assessment is first else assessment.thresholds
        print_text(f"{_summary(title, assessment, shown)}\n\n{assessment.table()}\n")
    if gains:
        print_text(f"{' against '.join(assessments)}, on the same draws of identities\n")
    for gain in gains:
        print_text(f"  {gain.name:<22}{gain.sentence()}")
    files = "evaluation.json and report.html" if report else "evaluation.json"
    say(f"wrote {files} in {out}{f', and {threshold_file}' if thresholds else ''}")


def _read_file(
    path: Path,
    data: str | None,
    part: str | None,
    split: Path | None,
    validation: Path | None,
) -> EvaluationData:
    if data is not None or part is not None:
        raise OptionError(f"{path} holds embeddings: a dataset or --part is for runs")
    chosen = None if split is None else Split.load(split)
    return read_evaluation_data(path, split=chosen, validation=validation)


def _write_thresholds(
    thresholds: Thresholds | None, run: TrainedRun | None, out: Path
) -> tuple[Thresholds | None, Path]:
    """Write threshold.json, of a run into its folder; those that there are now, and where."""
    file = (out if run is None else run.path) / "threshold.json"
    if thresholds is None and run is not None and not file.exists():
        thresholds = make_run_thresholds(run)  # trained before thresholds came with training
    if thresholds is not None:
        thresholds.save(file)
    elif run is None:
        file.unlink(missing_ok=True)  # of an earlier evaluation, with other validation identities
    return thresholds, file


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


def _check_same_samples(contents: list[EvaluationData]) -> None:
    first, *others = contents
    for other in others:
        ours, theirs = first.embeddings, other.embeddings
        if not np.array_equal(ours.names, theirs.names):
            raise InputError(
                f"{first.title} has {len(ours):,} samples of {len(ours.class_names):,} identities, "
                f"and {other.title} {len(theirs):,} of {len(theirs.class_names):,}, or they stand "
                "in another order; a comparison needs the same samples, row by row"
            )


def _json(assessments: dict[str, Assessment], gains: list[Difference]) -> dict[str, Any]:
    if len(assessments) == 1:
        return next(iter(assessments.values())).json()
    return {
        "models": {title: assessment.json() for title, assessment in assessments.items()},
        "differences": [gain.json() for gain in gains],
    }


def _default_folder(source: Path) -> Path:
    """In a run's folder; beside a file or folder of embeddings, which stays as it is."""
    if source.is_dir() and not holds_embeddings(source):
        return source / "evaluation"
    name = source.name if source.is_dir() else source.stem
    return source.with_name(f"{name}-evaluation")
