"""Thresholds from identities that a model was not trained on: images, files, embeddings at hand.

calibrate_model(model, data)    → a run or an ONNX file with thresholds in it
read_identities(data, model)    → Identities: embedded, or out of a file, and whose they are
calibrate(embeddings, labels)   → Thresholds
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.data import overlap
from arcset.data.embeddings import holds_embeddings, holds_shards, read_embeddings, read_manifest
from arcset.errors import DataError, InputError, OptionError
from arcset.evaluation.arrays import embedding_matrix, refuse_zero_rows
from arcset.evaluation.calibration import Thresholds, make_thresholds
from arcset.evaluation.calibration.templates import IMAGES, SCORINGS
from arcset.evaluation.pairs import ImpostorPairs
from arcset.recognition.decisions import Plain, decide, threshold_words
from arcset.recognition.inputs import list_images
from arcset.recognition.recognizer import ImageEmbedder, Progress, Recognizer, with_faces

_MOST_SAMPLES = 10_000  # all pairs of so many are looked at in seconds


def calibrate(
    embeddings: npt.ArrayLike,
    labels: Sequence[str] | npt.ArrayLike,
    *,
    samples: int | None = None,
    scoring: str | None = None,
    made_from: Mapping[str, Any] | None = None,
) -> Thresholds:
    """Thresholds and probabilities from identities that the model was not trained on.

    Every identity stands for an unknown one in turn, probed against galleries of the others. What
    is found holds for unknown probes that come from where these identities come from.

    Parameters:
        embeddings: (N, D), no row all zero.
        labels: (N,) the identity of each, by name or number.
        samples: how many samples a gallery holds of each subject; by default, and at most, as many
            as half of these identities have.
        scoring: how the gallery scores a subject of several samples; by default thresholds are made
            for `max`, `mean` and `top-3`.
        made_from: plain values that say where this comes from.

    Of more than 10,000 samples, identities are drawn until there are so many. Few identities give
    rough thresholds. Raises `InputError` where none has two samples, or all are of one identity,
    and for malformed embeddings or labels.

        >>> rng = np.random.default_rng(0)
        >>> names = [f"bird {number:02d}" for number in range(40) for _ in range(3)]
        >>> made = calibrate(np.repeat(rng.normal(size=(40, 8)), 3, 0) + 0.1, names)
        >>> made.made_from["identities"], made.rates.samples_per_subject
        (40, 3)
    """
    matrix, names = embedding_matrix(np.asarray(embeddings)), np.asarray(labels)
    refuse_zero_rows(matrix)
    if names.shape != (len(matrix),):
        raise InputError(
            f"labels have shape {names.shape}, expected ({len(matrix)},): one identity per "
            "embedding"
        )
    _, numbers, sizes = np.unique(names, return_inverse=True, return_counts=True)
    if len(numbers) > _MOST_SAMPLES:
        drawn = _draw_identities(numbers, sizes)
        matrix, names = matrix[drawn], names[drawn]
        _, numbers, sizes = np.unique(names, return_inverse=True, return_counts=True)
    median = max(1, int(np.median(sizes))) if len(sizes) else 1
    samples = median if samples is None else min(samples, median)
    return make_thresholds(
        matrix,
        numbers,
        samples=samples if scoring in (None, "max") else 1,
        scorings=SCORINGS if scoring is None else (scoring,),
        images={*IMAGES, samples},
        made_from=made_from,
    )


def _draw_identities(
    numbers: npt.NDArray[np.intp], sizes: npt.NDArray[np.intp]
) -> npt.NDArray[np.bool_]:
    """Which rows are of identities drawn at random, always the same, as many as are looked at."""
    order = np.random.default_rng(0).permutation(len(sizes))
    few = max(2, int(np.searchsorted(np.cumsum(sizes[order]), _MOST_SAMPLES, side="right")))
    return np.isin(numbers, order[:few])


# From a folder, a table, a named dataset or a file of embeddings


@dataclass(frozen=True, eq=False)
class Identities:
    """Embeddings (N, D), and the identity of each, (N,), to calibrate on.

    made_from: plain values that say where they come from. skipped: images that cannot be read, or
    show no face, and why. notes: sentences about whatever else was left out.
    """

    embeddings: npt.NDArray[Any]
    names: Sequence[str]
    made_from: Mapping[str, Any]
    skipped: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def calibrate(self, samples: int, scoring: str | None = None) -> Thresholds:
        """As `calibrate` does, for galleries of so many samples of each subject."""
        options: dict[str, Any] = {"samples": samples, "scoring": scoring}
        try:
            return calibrate(self.embeddings, self.names, **options, made_from=self.made_from)
        except InputError as error:
            (name, *_) = self.made_from.values()
            raise InputError(f"{name} gives no threshold: {error}") from None


def embed_identities(
    model: ImageEmbedder, data: Path | str, progress: Progress | None = None
) -> Identities:
    """As `read_identities`, for a model at hand."""
    name, digest, dim = model.name, model.digest, model.dim
    return read_identities(data, model, name=name, digest=digest, dim=dim, progress=progress)


def read_identities(
    data: Path | str,
    model: ImageEmbedder | None,
    *,
    name: str,
    digest: str,
    dim: int,
    progress: Progress | None = None,
) -> Identities:
    """Labelled images, as the model embeds them; or embeddings that it has made.

    Parameters:
        data: a folder per identity, a table, records, a pack or arrays; a file or folder of
            embeddings; as a text also the name of a dataset.
        model: what embeds images; embeddings do without.
        name, digest, dim: of the model; an empty digest stands for one that nobody knows.

    Identities that the model was trained on, as far as that is known, are left out, and `notes`
    says so.

    Raises `OptionError` for embeddings of another model, and `DataError` where nothing is left.
    """
    trained_on = () if model is None else model.trained_on
    origin = {"data": Path(data).name}
    if holds_embeddings(data):
        made_by = read_manifest(Path(data)).digest if holds_shards(data) else digest
        stored = read_embeddings(data)
        if digest not in ("", made_by) or stored.embeddings.shape[1] != dim:
            raise OptionError(
                f"{data} was embedded by another model, in {stored.embeddings.shape[1]} "
                f"dimensions, and {name} embeds in {dim}: embed the images with {name}"
            )
        names = stored.names.tolist()
        known = overlap({*trained_on, *(stored.trained_on or ())}, names)
        rows = np.flatnonzero(~np.isin(names, known))
        notes = _left_out(data, name, known, names)
        return Identities(stored.embeddings[rows], stored.names[rows].tolist(), origin, {}, notes)
    listed = list_images(data)
    known = overlap(trained_on, listed.names)
    notes = (*listed.notes, *_left_out(data, name, known, listed.names))
    pairs = zip(listed.images, listed.names, strict=True)
    label_of = {image: label for image, label in pairs if label not in known}
    assert model is not None  # for images
    embedded = model.embed_files(label_of, progress=progress)
    skipped = listed.skipped | {str(image): why for image, why in embedded.skipped.items()}
    if not len(embedded):
        why = ": ".join(next(iter(skipped.items())))
        raise DataError(f"none of the {len(label_of):,} images in {data} can be used: {why}")
    labels = [label_of[image] for image in embedded.paths]
    return Identities(embedded.embeddings, labels, origin, skipped, notes)


def _left_out(
    data: Path | str, name: str, known: Collection[str], names: Sequence[str]
) -> tuple[str, ...]:
    """A sentence about identities that training knew; raises `DataError` where that is all."""
    if not known:
        return ()
    total, first = len(set(names)), min(known)
    if len(known) == total:
        raise DataError(
            f"{name} was trained on all {total:,} identities of {data}, such as {first!r}, and "
            "tells them apart better than others: calibrate on identities that it has never seen"
        )
    were = "was" if len(known) == 1 else "were"
    return (
        f"{len(known):,} of {total:,} identities of {data}, such as {first!r}, {were} left out: "
        f"{name} was trained on identities of these names",
    )


# For a run or an ONNX file


@dataclass(frozen=True, eq=False)
class CalibratedModel:
    """A model with thresholds. path: where it lies. file: what was written of it."""

    path: Path
    file: Path
    thresholds: Thresholds
    identities: Identities

    @property
    def note(self) -> str:
        """A sentence about the threshold of `verify` where it is rough; else empty."""
        return decide(1.0, self.thresholds).note

    def __str__(self) -> str:
        return f"{self.thresholds.table()}\n\nthreshold {threshold_words(self.thresholds)}"

    def json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "model": str(self.path),
            "file": str(self.file),
            "skipped": dict(self.identities.skipped),
            "notes": [*self.identities.notes, *([self.note] if self.note else [])],
            **self.thresholds.summary(),
        }


def calibrate_model(
    model: Path,
    data: Path | str,
    *,
    faces: str | None = None,
    preset: str | None = None,
    out: Path | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> CalibratedModel:
    """Write the threshold.json of a run; or an ONNX file anew, with thresholds in it.

    Parameters:
        data: as of `read_identities`. faces: as of `load_model`.
        preset: how an ONNX file from elsewhere takes pixels; it is written into the new one.
        out: the new ONNX file. It embeds as the old one does, which is left as it is.

    What raises leaves everything as it was.
    """
    is_onnx = model.suffix.lower() == ".onnx" and not model.is_dir()
    with ExitStack() as stack:
        if is_onnx:
            _check_copy(model, out)
        else:
            _check_run(model, {"out": out, "preset": preset}, stack)
        recognizer = (
            Recognizer.load(model, device=device)
            if preset is None
            else Recognizer.from_onnx(model, preset=preset, device=device)
        )
        identities = embed_identities(with_faces(recognizer, faces), data, progress)
        thresholds = identities.calibrate(samples=1)
        if out is None:
            file = model / "threshold.json"
            thresholds.save(file)
            return CalibratedModel(model, file, thresholds, identities)
        from arcset.recognition.onnx_model import adopt

        options = {} if preset is None else {"preset": preset}
        adopt(model, out, thresholds=thresholds, **options)
        return CalibratedModel(out, out, thresholds, identities)


def _check_copy(model: Path, out: Path | None) -> None:
    """Refuse, before anything is embedded, an ONNX file that cannot be written anew."""
    from arcset.recognition.onnx_model import check_out, read_joined  # slow to import

    if out is None:
        raise OptionError(
            f"{model} is left as it is, so name a new file for the model with thresholds: --out "
            "FILE.onnx"
        )
    check_out(out)
    if out.exists() and model.exists() and out.samefile(model):
        raise OptionError(f"--out {out} is the model itself: name a new file")
    read_joined(model)


def _check_run(model: Path, options: Mapping[str, Any], stack: ExitStack) -> None:
    """Refuse what runs do not take, and keep the run from being trained meanwhile."""
    for name, value in options.items():
        if value is not None:
            raise OptionError(f"--{name} is for ONNX files, and {model} is none: leave it out")
    if model.is_dir():
        from arcset.runs.folder import locked

        stack.enter_context(locked(model))


# Who may be one


@dataclass(frozen=True)
class Alike(Plain):
    """Two identities with a pair of samples that look like one."""

    first: str
    second: str
    cosine: float

    def __str__(self) -> str:
        return f"{self.first} and {self.second}: cosine {self.cosine:.4f}"


def most_alike(
    embeddings: npt.ArrayLike, labels: Sequence[str] | npt.ArrayLike, *, least: float
) -> tuple[Alike, ...]:
    """Identities whose most similar samples have a cosine of at least `least`, falling.

    Who is enrolled under two names makes every threshold stricter than it needs to be.

        >>> points = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> print(*most_alike(points, ["anna", "ann", "ben"], least=0.9))
        ann and anna: cosine 0.9939
    """
    names = np.asarray(labels)
    pairs = ImpostorPairs.of(np.asarray(embeddings), np.unique(names, return_inverse=True)[1])
    count = int(np.searchsorted(-pairs.cosines, -least, side="right"))
    highest: dict[tuple[str, str], float] = {}
    for i, j, cosine in zip(
        pairs.first[:count], pairs.second[:count], pairs.cosines[:count], strict=True
    ):
        first, second = sorted((str(names[i]), str(names[j])))
        highest.setdefault((first, second), float(cosine))
    return tuple(Alike(*pair, cosine) for pair, cosine in highest.items())
