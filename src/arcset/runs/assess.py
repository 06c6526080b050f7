"""From a run, or from embeddings, to what is measured: assessment, figures, thresholds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from arcset.checks import check_choice
from arcset.data import DATASETS, Dataset, ImageSet, Selection, Split, load_dataset, overlap
from arcset.data.batches import as_tensor
from arcset.data.embeddings import EmbeddingSet, read_embeddings, with_columns
from arcset.data.selection import evaluation_images
from arcset.data.sources.insightface import read_verification_bin
from arcset.errors import DataError, InputError, OptionError
from arcset.evaluation import (
    Assessment,
    FoldAccuracy,
    Thresholds,
    Verification,
    assess,
    dunn_index,
    fold_accuracy,
    make_thresholds,
    verification,
)
from arcset.evaluation.assessment import FEW_FOR_THRESHOLDS
from arcset.evaluation.calibration.templates import SCORINGS
from arcset.evaluation.measures import MEASURES, run_figures, short_name
from arcset.evaluation.results import Missing
from arcset.numerics import unit_rows
from arcset.runs.data import dataset_of_run, reading_of
from arcset.runs.model import TrainedRun, embed

PARTS = ("unseen", "validation", "test", "train", "all")
_MOST = 4096  # images of a part that thresholds are made from
_CHUNK = 256  # images of pairs that are decoded at a time
_WORDS = {
    "unseen": "identities never seen",
    "validation": "validation identities",
    "test": "test images of the training identities",
    "train": "training images",
    "all": "all identities",
}


@dataclass(frozen=True, eq=False)
class EvaluationData:
    """Embeddings to be evaluated, and what is known about where they come from.

    title: the name of the run or file. description: which identities these are, in words.
    validation: embeddings of other identities, which thresholds are made from.
    overlap: identities that were in training as well; None where nobody knows what was.
    centers: the classifier's, with the identity of each; None where there are none.
    absent: how many identities of the split's test and validation parts are not in the file.
    skipped: files that could not be read, and why.
    origin: what thresholds are made from, for the record.
    """

    title: str
    embeddings: EmbeddingSet
    validation: EmbeddingSet | None = None
    overlap: tuple[str, ...] | None = None
    centers: npt.NDArray[Any] | None = None
    center_names: tuple[str, ...] = ()
    absent: int = 0
    description: str = ""
    skipped: tuple[tuple[str, str], ...] = ()
    origin: dict[str, Any] = field(default_factory=dict)

    def refuse_overlap(self) -> None:
        """Raise `DataError` where identities were in training."""
        if self.overlap:
            count, total = len(self.overlap), len(self.embeddings.class_names)
            raise DataError(
                f"{count:,} of {total:,} identities were in training, for instance "
                f"{', '.join(self.overlap[:3])}: the figures would not be about the unseen; hold "
                "identities out with `arcset data split`, or go on with --allow-overlap, which "
                "marks the report"
            )

    @property
    def note(self) -> str:
        """What a reader must know before any figure."""
        sentences = []
        if self.overlap:
            total = len(self.embeddings.class_names)
            sentences.append(
                f"{len(self.overlap):,} of {total:,} identities were in training: these figures do "
                "not tell how well the unseen are recognized."
            )
        if self.absent:
            sentences.append(f"{self.absent:,} identities of the split are not in the file.")
        return " ".join(sentences)

    def assess(self, *, group: str | None = None, **options: Any) -> Assessment:
        """All measures; thresholds from the validation identities where there are some.

        group: the column whose groups are drawn whole.
        """
        validation = None
        if group is not None:
            options["groups"] = self.embeddings.columns[group]
        if self.validation is not None:
            labels = self._numbers(self.validation.class_names)[self.validation.labels]
            validation = self.validation.embeddings, labels
            if group is not None:
                options["validation_groups"] = self.validation.columns[group]
        return assess(
            self.embeddings.embeddings,
            self.embeddings.labels,
            centers=self.centers,
            center_labels=None if self.centers is None else self._numbers(self.center_names),
            validation=validation,
            made_from=self.origin,
            **options,
        )

    def _numbers(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """Labels as the evaluation has them, so that a shared identity is seen to be one; names
        that are not evaluated get further numbers."""
        known = {name: number for number, name in enumerate(self.embeddings.class_names)}
        numbers = [known.get(name, len(known) + row) for row, name in enumerate(names)]
        return np.array(numbers, dtype=np.int64)


def evaluation_data(
    trained: TrainedRun,
    data: str | Dataset | None = None,
    *,
    part: str | None = None,
    columns: Sequence[str] = (),
) -> EvaluationData:
    """Identities of a run's own data, or of another dataset, as the run embeds them.

    Of its own data, `part` is one of `PARTS`: by default unseen, where classes were held out, else
    test, else train. Of another dataset all identities are taken, with the images that held-out
    classes have in it. Thresholds come from the split's validation part. columns: to group by, see
    `with_columns`.
    """
    config, known = trained.config, trained.config.class_names or ()
    skipped: tuple[tuple[str, str], ...] = ()
    validation: EmbeddingSet | None = None
    name = data.name if isinstance(data, Dataset) else data or config.data
    if isinstance(data, Dataset) or not is_same_data(name, config.data):
        if part not in (None, "all"):
            raise OptionError(
                f"{part} is a part of {config.data}, the run's own data, and not of {name}"
            )
        other = data
        if not isinstance(other, Dataset):
            other = load_dataset(name, reading=reading_of(config), single=True)
        images = evaluation_images(other, everything=part == "all")
        _check_shape(trained, images)
        part, skipped, embeddings = "all", other.skipped, trained.embed_images(images)
    elif part == "all":
        images = evaluation_images(dataset_of_run(trained), everything=True)
        _check_shape(trained, images)
        embeddings = trained.embed_images(images)
    else:
        part = part or _default_part(trained.selection)
        _check_shape(trained, _images_of(trained.selection, part))
        embeddings = trained.embed_part(part)
        if part in ("unseen", "test") and trained.selection.validation is not None:
            validation = trained.embed_part("validation")
    centers = trained.loss.centers
    return EvaluationData(
        title=trained.path.name,
        embeddings=with_columns(embeddings, name, columns),
        validation=validation and with_columns(validation, name, columns),
        overlap=overlap(known, embeddings.class_names),
        centers=None if centers is None else centers.detach().cpu().numpy(),
        center_names=known,
        description=f"{Path(name).name}, {_WORDS[part]}",
        skipped=skipped,
        origin={} if validation is None else _origin(trained),
    )


def read_evaluation_data(
    path: Path,
    *,
    split: Split | None = None,
    validation: Path | None = None,
    columns: Sequence[str] = (),
) -> EvaluationData:
    """Embeddings from a file; a split, or a second file, says which identities make thresholds.

    columns: to group by, see `with_columns`.
    """
    content = with_columns(read_embeddings(path), path, columns)
    origin: dict[str, Any] = {"file": path.name}
    tuning, known, absent = None, content.trained_on, 0
    if split is not None:
        whole = content
        content = whole.keep(split.test)
        tuning = whole.keep(split.validation) if split.validation else None
        known = (*split.train, *(known or ()))
        absent = len({*split.test, *split.validation} - set(whole.class_names))
        origin |= {"part": "validation", "split": split.json()}
    if validation is not None:
        tuning = with_columns(read_embeddings(validation), validation, columns)
        origin |= {"file": validation.name}
    if tuning is not None and tuning.embeddings.shape[1] != content.embeddings.shape[1]:
        raise DataError(
            f"{validation} holds embeddings of {tuning.embeddings.shape[1]} dimensions, and {path} "
            f"of {content.embeddings.shape[1]}"
        )
    description = f"{len(content.class_names):,} identities of {path.name}"
    if known is None:
        description += "; whether training knew them is not known"
    return EvaluationData(
        title=path.stem,
        embeddings=content,
        validation=tuning,
        overlap=None if known is None else overlap(known, content.class_names),
        absent=absent,
        description=description,
        origin=origin,
    )


def assess_unseen(trained: TrainedRun, **options: Any) -> Assessment | None:
    """All measures on the identities held out of training; None where there are fewer than two."""
    unseen = trained.selection.unseen
    if unseen is None or len(unseen.class_names) < 2:
        return None
    return evaluation_data(trained, part="unseen").assess(**options)


def measure_run(
    trained: TrainedRun, assessment: Assessment | None = None, *, missing: Missing | None = None
) -> dict[str, float | None]:
    """All of `run_figures`, on the complete test part; None where the data do not allow one.

    assessment: that of the unseen part, if there is one already. missing: is told why a figure is
    None.
    """
    missing = Missing() if missing is None else missing
    figures: dict[str, float | None] = dict.fromkeys(run_figures())
    if trained.selection.test is None:
        missing["known classes"] = "none of their images was kept back from training"
    else:
        figures |= _known_figures(trained, missing)
    if assessment is None:
        assessment = missing.attempt(
            "unseen classes", lambda: assess_unseen(trained, intervals=False)
        )
    if assessment is not None:
        missing.update({f"unseen {name}": why for name, why in assessment.missing.items()})
        figures |= assessment_figures(assessment, "unseen", missing)
    elif "unseen classes" not in missing:
        held = "no identity was" if trained.selection.unseen is None else "a single identity was"
        missing["unseen classes"] = f"{held} held out of training, and two are needed"
    return figures


def assessment_figures(
    assessment: Assessment, part: str, missing: Missing | None = None
) -> dict[str, float | None]:
    """The figures of an assessment that a run is summed up in, as PART_KEY."""
    values = {name: result.measures() for name, result in assessment.results().items()}
    values["shape"] = dict(assessment.shape)
    figures: dict[str, float | None] = {}
    for entry in MEASURES.values():
        if not entry.key or entry.part not in values:
            continue
        value = values[entry.part].get(entry.full_name, nan)
        figures[f"{part}_{entry.key}"] = None if isnan(value) else value
        if isnan(value) and entry.is_rate and missing is not None:
            missing[f"{part}_{entry.key}"] = (
                f"too few pairs of different identities for {short_name(entry.full_name)}"
            )
    return figures


def _known_figures(trained: TrainedRun, missing: Missing) -> dict[str, float | None]:
    """Accuracy and Dunn indices on the test images of the training identities."""
    loss, images = trained.loss, trained.selection.test
    assert images is not None
    labels = torch.from_numpy(images.labels.astype(np.int64)).to(trained.device)  # (N,)
    embeddings = trained.embed_part("test").embeddings
    rows = torch.from_numpy(embeddings).to(trained.device)  # (N, D)
    unit, _ = unit_rows(rows)
    space = unit if loss.normalized else rows
    figures: dict[str, float | None] = {}
    if loss.classifies:
        figures["accuracy"] = (loss.classify(rows) == labels).sum().item() / len(labels)
    for name, points, trim in (
        ("dunn", space, None),
        ("dunn_trimmed", space, 0.95),
        ("dunn_trimmed_unit", unit, 0.95),
    ):
        figures[name] = missing.attempt(name, partial(_dunn, points, labels, trim))
    return figures


def _dunn(rows: Tensor, labels: Tensor, trim: float | None) -> float:
    if len(labels.unique()) < 2:
        raise InputError("the images kept back show a single identity, and two are needed")
    index = dunn_index(rows, labels, trim=trim)
    if isnan(index):
        raise InputError("each class is a single point, and two of these are the same")
    return index


def make_run_thresholds(
    trained: TrainedRun, assessment: Assessment | None = None
) -> Thresholds | None:
    """Thresholds for a run, from the best identities there are for it; None where no pair is.

    These are the validation identities, with the unseen ones where there are fewer than 50; where
    they have no genuine or no impostor pair, the test images and then the training images of the
    training identities. The last two promise no rate and are always `rough`: a network has learned
    to tell its training identities apart, and others look more alike to it. `assessment` is that of
    the unseen identities, if there is one already.
    """
    if assessment is not None and assessment.thresholds is not None:
        return assessment.thresholds
    validation = trained.selection.validation
    several = validation is not None and len(validation.class_names) >= FEW_FOR_THRESHOLDS
    held_out = partial(make_thresholds, scorings=SCORINGS)
    in_training = partial(make_thresholds, in_training=True)
    for name, parts, make in (
        ("validation", ["validation"] if several else [], held_out),
        ("held-out", ["validation", "unseen"], held_out),
        (_WORDS["test"], ["test"], in_training),
        (_WORDS["train"], ["train"], in_training),
    ):
        embedded = [
            _embed_at_most(trained, part, _MOST)
            for part in parts
            if getattr(trained.selection, part) is not None
        ]
        if not embedded:
            continue
        rows = np.concatenate([part.embeddings for part in embedded])
        names = np.concatenate([part.names for part in embedded])
        labels = np.unique(names, return_inverse=True)[1]
        try:
            return make(rows, labels, made_from={**_origin(trained), "part": name})
        except InputError:  # no genuine pair, or no impostor pair
            continue
    return None


def _origin(trained: TrainedRun) -> dict[str, Any]:
    """What thresholds of the run are made from, for the record."""
    split = trained.selection.split
    return {
        "run": trained.path.name,
        "data": Path(trained.config.data).name,
        "part": "validation",
        "split": None if split is None else split.json(),
    }


def _embed_at_most(trained: TrainedRun, part: str, count: int) -> EmbeddingSet:
    """A part, or about so many of its images: fewer of each identity, or of many, some of them."""
    images = _images_of(trained.selection, part)
    if len(images) <= count:
        return trained.embed_part(part)
    order = np.argsort(images.labels, kind="stable")
    sizes = np.bincount(images.labels)
    if count < 8 * len(sizes):
        drawn = np.random.default_rng(0).permutation(len(sizes))
        few = max(2, int(np.searchsorted(np.cumsum(sizes[drawn]), count, side="right")))
        order = order[np.isin(images.labels[order], drawn[:few])]
    rows = np.sort(order[:: -(-len(order) // count)])
    paths = None if images.paths is None else tuple(images.paths[row] for row in rows)
    return trained.embed_images(
        ImageSet(images.images[rows], images.labels[rows], images.class_names, paths)
    )


def measure_pairs(
    trained: TrainedRun, path: Path, *, folds: int = 10
) -> tuple[Verification, FoldAccuracy]:
    """A run on InsightFace's verification file `path`, such as lfw.bin.

    The second is the accuracy of the protocol that such files come with: of each fold at the
    threshold that suits the others. Nothing in the file is executed. An image that cannot be read
    is an error: without it the pairs would be others than those that figures are published for.
    """
    reading = reading_of(trained.config)
    if reading is None:
        raise OptionError(f"{trained.path} takes no images, and {path} holds some")
    pairs = read_verification_bin(path)
    if len(pairs.same) < folds:
        raise DataError(f"{path} holds {len(pairs.same)} pairs, too few for {folds} folds")
    chunks = []
    for start in range(0, len(pairs.contents), _CHUNK):
        contents = pairs.contents[start : start + _CHUNK]
        images = np.stack(
            [
                reading.read(content, f"image {start + number} of {path}")
                for number, content in enumerate(contents)
            ]
        )
        chunks.append(embed(trained.network, as_tensor(images, trained.device)).cpu())
    embeddings = torch.cat(chunks)  # (2P, D)
    rows = np.arange(len(pairs.contents)).reshape(-1, 2)
    return (
        verification(embeddings, pairs=rows, same=pairs.same),
        fold_accuracy(embeddings, rows, pairs.same, folds=folds),
    )


def is_same_data(data: str, own: str) -> bool:
    """Whether two names of datasets, or paths, are the same."""
    return data == own or (data not in DATASETS and str(Path(data).resolve()) == own)


def _default_part(selection: Selection) -> str:
    held_out = [name for name in ("unseen", "test") if getattr(selection, name) is not None]
    return [*held_out, "train"][0]


def _images_of(selection: Selection, part: str) -> ImageSet:
    check_choice("part", part, PARTS)
    images: ImageSet | None = getattr(selection, part)
    if images is None:
        raise OptionError(
            f"the run has no {part} part: no classes were held out for it; see `arcset data split`"
        )
    return images


def _check_shape(trained: TrainedRun, images: ImageSet) -> None:
    expected = trained.config.shape
    if expected is not None and images.shape != tuple(expected):
        raise OptionError(
            f"the run takes {shape_words(expected)}, and these are {shape_words(images.shape)}"
        )


def shape_words(shape: Sequence[int]) -> str:
    """What samples of a shape are, for people.

    >>> shape_words((1, 112, 92)), shape_words((64,))
    ('images of 92×112 grey', 'vectors of 64 values')
    """
    if len(shape) == 1:
        return f"vectors of {shape[0]} values"
    channels, height, width = shape
    kind = {1: "grey", 3: "RGB"}.get(channels, f"of {channels} channels")
    return f"images of {width}×{height} {kind}"
