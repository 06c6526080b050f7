"""`evaluate`: a run or embeddings → measures, thresholds and a report."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from arcset.api.train_run import Data, path_of, read_given
from arcset.data import Dataset, Split
from arcset.data.embeddings import holds_embeddings
from arcset.errors import DataError, InputError, OptionError
from arcset.evaluation import (
    Assessment,
    ByGroup,
    Difference,
    Thresholds,
    by_group,
    differences,
)
from arcset.evaluation.calibration.thresholds import USUAL_FAR
from arcset.files import finite, write_text
from arcset.recognition.decisions import decide
from arcset.reports.evaluation_report import write_evaluation
from arcset.runs import Run
from arcset.runs.assess import (
    EvaluationData,
    evaluation_data,
    make_run_thresholds,
    read_evaluation_data,
)
from arcset.runs.config import GIVEN
from arcset.runs.data import selection_of
from arcset.runs.model import TrainedRun
from arcset.text import skipped_lines
from arcset.training.watchers import Lines, Watcher


def evaluate(
    source: Run | Path | str,
    data: Data | None = None,
    *,
    part: str | None = None,
    split: Path | str | None = None,
    validation: Path | str | None = None,
    allow_overlap: bool = False,
    intervals: bool = True,
    seed: int = 0,
    out: Path | str | None = None,
    network: nn.Module | None = None,
    device: str = "auto",
    report: bool = True,
    watcher: Watcher | None = None,
    by: str | None = None,
    group: str | None = None,
    threshold: float | None = None,
    far: float | None = None,
) -> Assessment:
    """Judge an embedding on identities that took no part in training.

    Does what `arcset evaluate` does: evaluation.json, pictures and report.html are written, and for
    a run with validation identities its threshold.json anew.

    Args:
        source: a run, which is not loaded again if `train` returned it; its folder; or a file of
            embeddings.
        data: other data to judge a run on; its own if left out. A run whose data was given in
            Python is handed that.
        part: of the run's own data: unseen, validation, test, train or all.
        split, validation: for embeddings: a split, or a file of other identities, which say whom to
            judge and whom to make thresholds from.
        allow_overlap: judge identities that were in training, and mark the report.
        intervals: whether to find 95 % intervals over identities. seed: of their draws.
        out: folder for what is written: RUN/evaluation or FILE-evaluation if left out.
        network: the module of a run whose network was given in Python.
        by: a column to find FMR and FNMR by, see `with_columns` in `arcset.data.embeddings`; at the
            working point, or another `threshold`, or that of another `far`.
        group: a column whose groups are drawn whole for intervals, and for thresholds that are to
            hold for other groups.

    Raises:
        DataError: the identities were in training, or nothing can be measured.
        OptionError, RunError: as of `train`.
    """
    result = evaluate_each(
        [source],
        data,
        part=part,
        split=split,
        validation=validation,
        allow_overlap=allow_overlap,
        intervals=intervals,
        seed=seed,
        out=out,
        network=network,
        device=device,
        report=report,
        watcher=watcher,
        by=by,
        group=group,
        threshold=threshold,
        far=far,
    )
    return next(iter(result.assessments.values()))


@dataclass
class Evaluation:
    """What `evaluate_each` measured, and where it wrote it.

    assessments: by the name of each run or file. differences: of the second from the first, where
    there are two. note: what a reader must know before any figure. thresholds: those of the first.
    """

    assessments: dict[str, Assessment]
    differences: list[Difference]
    note: str
    thresholds: Thresholds | None
    folder: Path
    threshold_file: Path

    def json(self) -> dict[str, Any]:
        """As one object, the one in evaluation.json."""
        if len(self.assessments) == 1:
            return {"note": self.note, **next(iter(self.assessments.values())).json()}
        return {
            "note": self.note,
            "models": {title: each.json() for title, each in self.assessments.items()},
            "differences": [difference.json() for difference in self.differences],
        }


def evaluate_each(
    sources: Sequence[Run | Path | str],
    data: Data | None = None,
    *,
    part: str | None = None,
    split: Path | str | None = None,
    validation: Path | str | None = None,
    allow_overlap: bool = False,
    intervals: bool = True,
    seed: int = 0,
    out: Path | str | None = None,
    network: nn.Module | None = None,
    device: str = "auto",
    report: bool = True,
    watcher: Watcher | None = None,
    command: str = "",
    by: str | None = None,
    group: str | None = None,
    threshold: float | None = None,
    far: float | None = None,
) -> Evaluation:
    """One run or file, or two that are compared on the same samples; else as `evaluate`."""
    watcher = watcher or Lines()
    if len(sources) > 1 and not intervals:
        raise OptionError("two are compared on draws of identities: leave intervals on")
    if len(sources) > 1 and validation is not None:
        raise OptionError(
            "validation holds embeddings of one model only; to compare two, name a split"
        )
    if by is None and (threshold, far) != (None, None):
        raise OptionError(
            "threshold and far say where groups are compared: name a column, by=… or --by"
        )
    wanted = [column for column in (by, group) if column is not None]
    first: TrainedRun | None = None
    contents: list[EvaluationData] = []
    for number, source in enumerate(sources):
        if isinstance(source, Run) or not holds_embeddings(source):
            if split is not None or validation is not None:
                raise OptionError("split and validation are for files; a run has its own split")
            run = source if isinstance(source, Run) else Run.open(source)
            with watcher.working(f"embedding {run.path}"):
                trained, other = _open_run(run, data, network, device, watcher)
                first = trained if number == 0 else first
                contents.append(evaluation_data(trained, other, part=part, columns=wanted))
        elif data is not None or part is not None:
            raise OptionError(f"{source} holds embeddings: a dataset or part is for runs")
        else:
            contents.append(
                read_evaluation_data(
                    Path(source),
                    split=None if split is None else Split.load(Path(split)),
                    validation=None if validation is None else Path(validation),
                    columns=wanted,
                )
            )
        for line in skipped_lines(contents[-1].skipped):
            watcher.noted(line)
        if not allow_overlap:
            contents[-1].refuse_overlap()
    _check_same_samples(contents)
    assessments: dict[str, Assessment] = {}
    for content in contents:
        with watcher.working(f"measuring {content.title}"):
            title = f"{content.title} (2)" if content.title in assessments else content.title
            drawing = {"intervals": intervals, "seed": seed}
            found = content.assess(group=group, **drawing)
            if by is not None:
                rates = _compare_groups(content, found, by, group, threshold, far, **drawing)
                found = replace(found, by_group=rates)
            assessments[title] = found
    notes = [
        f"{title}: {content.note}" if len(contents) > 1 else content.note
        for title, content in zip(assessments, contents, strict=True)
        if content.note
    ]
    folder = Path(out) if out is not None else _evaluation_folder(path_of(sources[0]), first)
    result = Evaluation(
        assessments,
        differences(*assessments.values()) if len(contents) > 1 else [],
        " ".join(notes),
        next(iter(assessments.values())).thresholds,
        folder,
        (folder if first is None else first.path) / "threshold.json",
    )
    write_text(folder / "evaluation.json", dumps(finite(result.json()), indent=2) + "\n")
    _write_thresholds(result, first)
    if report:
        names = " against ".join(assessments)
        with watcher.working("drawing the report"):
            write_evaluation(
                folder,
                assessments,
                title=f"{names}: {contents[0].description}",
                command=command
                or shlex.join(["arcset", "evaluate", *map(str, map(path_of, sources))]),
                note=result.note,
                differences={names: result.differences} if result.differences else None,
            )
    files = "evaluation.json and report.html" if report else "evaluation.json"
    more = "" if result.thresholds is None else f", and {result.threshold_file}"
    watcher.noted(f"wrote {files} in {folder}{more}")
    return result


def _compare_groups(
    content: EvaluationData,
    found: Assessment,
    by: str,
    group: str | None,
    threshold: float | None,
    far: float | None,
    **options: Any,
) -> ByGroup:
    """At the threshold, or the working point of the validation identities, or the whole set's."""
    embeddings = content.embeddings
    basis = "as given"
    if found.thresholds is not None or threshold is not None:
        point = decide(0.0, found.thresholds, far=far, threshold=threshold)
        if found.thresholds is not None and threshold is None:
            rate = "" if point.far is None else f"for a FAR of {point.far:.2g}, "
            basis = f"{rate}from {found.thresholds.origin}"
        threshold = point.threshold
    return by_group(
        embeddings.embeddings,
        embeddings.labels,
        embeddings.columns[by],
        threshold=threshold,
        far=USUAL_FAR if far is None else far,
        groups=None if group is None else embeddings.columns[group],
        basis=basis,
        column=by,
        **options,
    )


def _open_run(
    run: Run,
    data: Data | None,
    network: nn.Module | None,
    device: str,
    watcher: Watcher,
) -> tuple[TrainedRun, str | Dataset | None]:
    """The run in memory, and the data to judge it on if that is not its own."""
    if isinstance(run, TrainedRun):
        trained = run
    else:
        trained = TrainedRun.load(run, device=device, network=network)
    if data is None or isinstance(data, str | Path):
        return trained, None if data is None else str(data)
    dataset = read_given(data, trained.config, watcher, trained)
    if trained.config.data == GIVEN and trained is not run:
        try:  # its own data, if the identities are the same
            selection = selection_of(trained, dataset=dataset)
        except (DataError, OptionError):
            return trained, dataset
        return TrainedRun(trained, trained.network, trained.loss, trained.device, selection), None
    return trained, dataset


def _evaluation_folder(path: Path, run: TrainedRun | None) -> Path:
    """In a run's folder; beside a file or folder of embeddings, which stays as it is."""
    if run is not None:
        return run.path / "evaluation"
    name = path.name if path.is_dir() else path.stem
    return path.with_name(f"{name}-evaluation")


def _write_thresholds(result: Evaluation, run: TrainedRun | None) -> None:
    """Write threshold.json, of a run into its folder, of embeddings beside the report."""
    if result.thresholds is None and run is not None and run.thresholds is None:
        result.thresholds = make_run_thresholds(run)  # trained before thresholds came with training
    if result.thresholds is not None:
        result.thresholds.save(result.threshold_file)
    elif run is None:
        result.threshold_file.unlink(missing_ok=True)  # of an earlier evaluation


def _check_same_samples(contents: Sequence[EvaluationData]) -> None:
    first, *others = contents
    for other in others:
        left, right = first.embeddings, other.embeddings
        if not np.array_equal(left.names, right.names):
            raise InputError(
                f"{first.title} has {len(left):,} samples of {len(left.class_names):,} identities, "
                f"and {other.title} {len(right):,} of {len(right.class_names):,}, or they stand "
                "in another order; a comparison needs the same samples, row by row"
            )
