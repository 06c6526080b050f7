"""A run, or a file of embeddings, judged on identities that took no part in its training."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.checks import check_choice
from arcset.data import (
    DATASETS,
    Dataset,
    ImageSet,
    Selection,
    Split,
    load_dataset,
    overlap,
    to_tensors,
)
from arcset.data.embeddings import EmbeddingSet, read_embeddings
from arcset.data.selection import evaluation_images
from arcset.devices import choose_device
from arcset.errors import DataError, InputError, OptionError
from arcset.evaluation import Assessment, Thresholds, assess, make_thresholds
from arcset.evaluation.calibration import make_rough_thresholds
from arcset.runs import Run
from arcset.runs.data import dataset_of_run, reading_of, selection_of
from arcset.runs.model import embed, load_model

__all__ = [
    "PARTS",
    "Judged",
    "embed_part",
    "judge_file",
    "judge_run",
    "shape_words",
    "thresholds_of",
]

PARTS = ("unseen", "validation", "test", "train", "all")
_MOST = 4096  # images of a part that thresholds are made from
_WORDS = {
    "unseen": "identities never seen",
    "validation": "validation identities",
    "test": "test images of the training identities",
    "train": "training images",
    "all": "all identities",
}


@dataclass(frozen=True, eq=False)
class Judged:
    """Embeddings to be judged, and what is known about where they come from.

    title: what it is called. what: which identities these are, in words.
    skipped: files that could not be read, and why.
    origin: what thresholds are made from, for the record.
    shared: identities that were in training as well; None where nobody knows what was.
    absent: how many identities of the split's test and validation parts are not in the file.
    centers: the classifier's, with the identity of each; None where there are none.
    """

    title: str
    embeddings: EmbeddingSet
    validation: EmbeddingSet | None = None
    shared: tuple[str, ...] | None = None
    centers: npt.NDArray[Any] | None = None
    center_names: tuple[str, ...] = ()
    absent: int = 0
    what: str = ""
    skipped: tuple[tuple[str, str], ...] = ()
    origin: dict[str, Any] = field(default_factory=dict)

    def refuse_overlap(self) -> None:
        """Raise `DataError` where identities were in training."""
        if self.shared:
            count, total = len(self.shared), len(self.embeddings.class_names)
            raise DataError(
                f"{count:,} of {total:,} identities were in training, for instance "
                f"{', '.join(self.shared[:3])}: the figures would not be about the unseen; hold "
                "identities out with `arcset data split`, or go on with --allow-overlap, which "
                "marks the report"
            )

    @property
    def note(self) -> str:
        """What a reader must know before any figure."""
        said = []
        if self.shared:
            total = len(self.embeddings.class_names)
            said.append(
                f"{len(self.shared):,} of {total:,} identities were in training: these figures do "
                "not tell how well the unseen are recognized."
            )
        if self.absent:
            said.append(f"{self.absent:,} identities of the split are not in the file.")
        return " ".join(said)

    def assess(self, **options: Any) -> Assessment:
        """All measures; thresholds from the validation identities where there are some."""
        return assess(
            self.embeddings.embeddings,
            self.embeddings.labels,
            **self._centers(),
            validation=self._validation(),
            made_from=self.origin,
            **options,
        )

    def _validation(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]] | None:
        """Labels as the evaluation has them, so that a shared identity is seen to be one."""
        if self.validation is None:
            return None
        known = {name: number for number, name in enumerate(self.embeddings.class_names)}
        numbers = [
            known.get(name, len(known) + place)
            for place, name in enumerate(self.validation.class_names)
        ]
        return self.validation.embeddings, np.array(numbers, dtype=np.int64)[self.validation.labels]

    def _centers(self) -> dict[str, Any]:
        """The centers; those of classes that are not evaluated have labels of their own."""
        if self.centers is None:
            return {}
        known = {name: number for number, name in enumerate(self.embeddings.class_names)}
        labels = [
            known.get(name, len(known) + place) for place, name in enumerate(self.center_names)
        ]
        return {"centers": self.centers, "center_labels": np.array(labels, dtype=np.int64)}


def judge_run(
    run: Run,
    data: str | None = None,
    *,
    part: str | None = None,
    device: str = "auto",
    selection: Selection | None = None,
) -> Judged:
    """A run on identities of its own data, or on another dataset.

    Of its own data, `part` is one of `PARTS`: by default unseen, where classes were held out, else
    test, else train. Of
    another dataset all identities are taken, with the images that held-out classes have in it.
    Thresholds come from the split's validation part. `selection` saves reading the data again.
    """
    selection = selection or selection_of(run)
    skipped: tuple[tuple[str, str], ...] = ()
    there = [name for name in ("unseen", "test") if getattr(selection, name) is not None]
    name = part or [*there, "train"][0]
    if data is not None and not _same(data, run.config.data):
        if part not in (None, "all"):
            raise OptionError(
                f"{part} is a part of {run.config.data}, the run's own data, and not of {data}"
            )
        others = _others(run, data)
        skipped = others.skipped
        name, images = "all", evaluation_images(others, everything=part == "all")
    elif name == "all":
        images = evaluation_images(dataset_of_run(run), everything=True)
    else:
        images = _part(selection, name)
    network, loss = load_model(run)
    place = choose_device(device)
    network = network.to(place)
    _check_shape(run, images)
    validation = selection.validation if name in ("unseen", "test") else None
    known = selection.train.class_names
    centers = loss.centers
    return Judged(
        title=run.path.name,
        embeddings=embed_part(network, images, place, known),
        validation=None if validation is None else embed_part(network, validation, place, known),
        shared=overlap(known, set(np.array(images.class_names)[np.unique(images.labels)].tolist())),
        centers=None if centers is None else centers.detach().cpu().numpy(),
        center_names=known,
        what=f"{Path(data or run.config.data).name}, {_WORDS[name]}",
        skipped=skipped,
        origin=_origin(run, selection),
    )


def _origin(run: Run, selection: Selection) -> dict[str, Any]:
    """What thresholds of the run are made from, for the record."""
    return {
        "run": run.path.name,
        "data": Path(run.config.data).name,
        "part": "validation",
        "split": None if selection.split is None else selection.split.json(),
    }


def thresholds_of(
    run: Run,
    selection: Selection,
    *,
    device: str = "auto",
    assessment: Assessment | None = None,
) -> Thresholds | None:
    """Thresholds for a run, from the best identities there are for it; None where no pair is.

    These are the validation identities; where they have no genuine or no impostor pair, all
    identities held out; where these have none, the test images and then the training images of
    the training identities. The last two promise no rate and are always `rough`: a network has
    learned to tell its training identities apart, and others look more alike to it. `assessment`
    is that of the unseen identities, if there is one already.
    """
    if assessment is not None and assessment.thresholds is not None:
        return assessment.thresholds
    network = load_model(run)[0].to(place := choose_device(device))
    held_out = [part for part in (selection.validation, selection.unseen) if part is not None]
    origin = _origin(run, selection)
    for name, parts, make in (
        ("validation", [selection.validation], make_thresholds),
        ("held-out", held_out, make_thresholds),
        (_WORDS["test"], [selection.test], make_rough_thresholds),
        (_WORDS["train"], [selection.train], make_rough_thresholds),
    ):
        embedded = [
            embed_part(network, _at_most(part, _MOST), place, ())
            for part in parts
            if part is not None
        ]
        if not embedded:
            continue
        rows = np.concatenate([part.embeddings for part in embedded])
        names = np.concatenate([part.names for part in embedded])
        numbers = np.unique(names, return_inverse=True)[1]
        try:
            return make(rows, numbers, made_from={**origin, "part": name})
        except InputError:  # no genuine pair, or no impostor pair
            continue
    return None


def _at_most(images: ImageSet, count: int) -> ImageSet:
    """The images, or about so many: fewer of each identity, or of many, some identities."""
    if len(images) <= count:
        return images
    order = np.argsort(images.labels, kind="stable")
    sizes = np.bincount(images.labels)
    if count < 8 * len(sizes):
        drawn = np.random.default_rng(0).permutation(len(sizes))
        few = max(2, int(np.searchsorted(np.cumsum(sizes[drawn]), count, side="right")))
        order = order[np.isin(images.labels[order], drawn[:few])]
    rows = np.sort(order[:: -(-len(order) // count)])
    paths = None if images.paths is None else tuple(images.paths[row] for row in rows)
    return ImageSet(images.images[rows], images.labels[rows], images.class_names, paths)


def judge_file(path: Path, *, split: Split | None = None, validation: Path | None = None) -> Judged:
    """Embeddings from a file; a split, or a second file, says which identities make thresholds."""
    content = read_embeddings(path)
    origin: dict[str, Any] = {"file": path.name}
    tuning, known, absent = None, content.trained_on, 0
    if split is not None:
        whole = content
        content = whole.keep(split.test)
        tuning = whole.keep(split.validation) if split.validation else None
        known = (*split.train, *(known or ()))
        wanted = (*split.test, *split.validation)
        absent = len(set(wanted) - set(whole.class_names))
        origin |= {"part": "validation", "split": split.json()}
    if validation is not None:
        tuning = read_embeddings(validation)
        origin |= {"file": validation.name}
    if tuning is not None and tuning.embeddings.shape[1] != content.embeddings.shape[1]:
        raise DataError(
            f"{validation} holds embeddings of {tuning.embeddings.shape[1]} dimensions, and {path} "
            f"of {content.embeddings.shape[1]}"
        )
    what = f"{len(content.class_names):,} identities of {path.name}"
    if known is None:
        what += "; whether training knew them is not known"
    return Judged(
        title=path.stem,
        embeddings=content,
        validation=tuning,
        shared=None if known is None else overlap(known, content.class_names),
        absent=absent,
        what=what,
        origin=origin,
    )


def embed_part(network: Any, images: ImageSet, device: Any, known: Sequence[str]) -> EmbeddingSet:
    """The embeddings of all images, each with the name of its class, and the classes trained on."""
    tensors, labels = to_tensors(images, device)
    found = embed(network, tensors).cpu().numpy()
    names: Sequence[str] = np.array(images.class_names)[labels.cpu().numpy()].tolist()
    return EmbeddingSet.of(found, names, images.paths, trained_on=known)


def _same(data: str, own: str) -> bool:
    """Whether two names of datasets, or paths, are the same."""
    return data == own or (data not in DATASETS and str(Path(data).resolve()) == own)


def _others(run: Run, data: str) -> Dataset:
    """Other data than the run's own, read as the run reads images."""
    return load_dataset(data, reading=reading_of(run.config), single=True)


def _part(selection: Selection, name: str) -> ImageSet:
    check_choice("part", name, PARTS)
    images: ImageSet | None = getattr(selection, name)
    if images is None:
        raise OptionError(
            f"the run has no {name} part: no classes were held out for it; see `arcset data split`"
        )
    return images


def _check_shape(run: Run, images: ImageSet) -> None:
    shape = images.shape
    if run.config.shape is not None and shape != tuple(run.config.shape):
        raise OptionError(
            f"the run takes {shape_words(run.config.shape)}, and these are {shape_words(shape)}"
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
