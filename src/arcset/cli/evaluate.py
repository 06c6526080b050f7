"""`arcset evaluate`: how well an embedding recognizes what it has never seen."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from arcset.api.evaluate_run import evaluate_each
from arcset.cli import options as o
from arcset.cli.output import (
    print_json,
    print_result,
    print_text,
    say,
    show_progress,
    working,
)
from arcset.errors import OptionError
from arcset.evaluation import Assessment, Thresholds
from arcset.recognition.decisions import threshold_words
from arcset.reports.tables import headline
from arcset.runs.assess import PARTS, measure_pairs
from arcset.runs.model import TrainedRun


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
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Compare FMR and FNMR by what this column of the data says."
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Draw whole groups, for intervals and thresholds that hold for other groups.",
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="With --by: that they are compared at.")
    ] = None,
    far: Annotated[
        float | None, typer.Option(help="With --by: compare at the threshold of this FAR.")
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
    with thresholds from validation identities where the data were split that way. A column for --by
    or --group is one of the table or file; or `group`, the part of GROUP/NAME before the first /.

    Example: arcset evaluate runs/orl --against runs/orl-softmax
    """
    if data is not None and data.endswith(".bin"):
        others: dict[str, object] = {"against": against, "part": part, "split": split}
        others |= {"validation": validation, "by": by, "group": group}
        others |= {"threshold": threshold, "far": far}
        for name, value in {**others, "out": out}.items():
            if value is not None:
                raise OptionError(
                    f"{data} holds pairs, which --{name} does not go with: leave it out"
                )
        with working(f"embedding {data}"):
            pairs, folds = measure_pairs(TrainedRun.load(source, device=device), Path(data))
        content = {"file": Path(data).name, "verification": pairs.json()}
        content["fold_accuracy"] = folds.json()
        print_result(json, content, f"{pairs.table()}\n\n{folds.table()}")
        return
    with show_progress() as watcher:
        result = evaluate_each(
            [source] if against is None else [source, against],
            data,
            part=part,
            split=split,
            validation=validation,
            allow_overlap=allow_overlap,
            intervals=intervals,
            seed=seed,
            out=out,
            device=device,
            report=report,
            watcher=watcher,
            by=by,
            group=group,
            threshold=threshold,
            far=far,
            command=shlex.join(["arcset", *sys.argv[1:]]),
        )
    if json:
        print_json(result.json())
        return
    if result.note:
        say(f"NOTE: {result.note}")
    thresholds = result.thresholds
    for title, assessment in result.assessments.items():
        print_text(f"{_summary(title, assessment, thresholds)}\n\n{assessment.table()}\n")
        thresholds = None  # the first has those of its run, the second its own
    if result.differences:
        print_text(f"{' against '.join(result.assessments)}, on the same draws of identities\n")
    for difference in result.differences:
        print_text(f"  {difference.name:<22}{difference.sentence()}")


def _summary(title: str, assessment: Assessment, thresholds: Thresholds | None) -> str:
    """The figures that matter most and the threshold, before all others."""
    thresholds = thresholds or assessment.thresholds
    lines = [
        f"  {value.label:<20}{value.format():>10}   {value.format_interval()}"
        for value in headline(assessment)
    ]
    if thresholds is not None:
        lines.append(f"  {'threshold':<20}{threshold_words(thresholds)}")
    elif "thresholds" in assessment.missing:
        lines.append(f"  {'threshold':<20}none: {assessment.missing['thresholds']}")
    return "\n".join([title, *lines])
