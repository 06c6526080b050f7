"""What turns samples into embeddings, in two steps: by many threads, then by the network."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from arcset.checks import check_choice
from arcset.data import DATASETS, Reading, open_source
from arcset.data.mapping import ClassMapping
from arcset.data.sources.arrays import ArraySource
from arcset.data.sources.base import Source
from arcset.errors import DataError, OptionError
from arcset.recognition.gallery.open import load_model
from arcset.recognition.recognizer import Recognizer
from arcset.recognition.run_model import RunModel
from arcset.runs import Run
from arcset.runs.assess import PARTS
from arcset.runs.data import check_not_given, reading_of, selection_of

if TYPE_CHECKING:
    from arcset.recognition.faces import FaceRecognizer

__all__ = [
    "BulkModel",
    "FacesModel",
    "ImagesModel",
    "TrainedModel",
    "open_inputs",
    "open_model",
]

Array = npt.NDArray[Any]


class BulkModel(Protocol):
    """A model as bulk embedding needs it.

    unit: whether the embeddings have length 1. trained_on: the identities that training knew.
    largest: bytes of one prepared sample, about.
    """

    name: str
    digest: str
    dim: int
    unit: bool
    trained_on: tuple[str, ...] | None
    largest: int

    def check(self, source: Source) -> None:
        """Raises `OptionError` where the samples are nothing that this model takes."""

    def prepare(self, sample: bytes | Array, name: str, inverted: bool | None) -> Array:
        """An image file or an array as the network takes it; raises `DataError` that names it.

        inverted: whether an array was inverted when it was made from an image; None: it is what it
        is. Called from several threads at once.
        """

    def embed(self, samples: Array) -> npt.NDArray[np.float32]:
        """Prepared samples (N, …) to (N, D)."""


class TrainedModel:
    """The network of a run; the embeddings keep the length that it gives them."""

    unit = False

    def __init__(self, run: Run, device: str = "auto") -> None:
        self._model = RunModel(run, device)
        self._reading = reading_of(run.config)
        self.name = run.path.resolve().name
        self.digest, self.dim = self._model.digest, self._model.dim
        self.trained_on = run.config.class_names
        self.largest = int(np.prod(self._model.shape)) * (1 if self._reading else 4)

    def check(self, source: Source) -> None:
        """See `BulkModel`."""
        _check_shape(self.name, self._model.shape, self._reading, source)
        if source.inverted is None and source.shape != self._model.shape:
            ours, theirs = _size(self._model.shape), _size(source.shape or ())
            raise OptionError(f"the run takes {ours}, and these are {theirs}")

    def prepare(self, sample: bytes | Array, name: str, inverted: bool | None) -> Array:
        """See `BulkModel`."""
        return _fitted(sample, name, self._reading, inverted)

    def embed(self, samples: Array) -> npt.NDArray[np.float32]:
        """See `BulkModel`."""
        found = self._model.run(samples)
        if not np.isfinite(found).all():
            raise DataError(
                f"{self.name} gives embeddings that are not finite: its weights are damaged, or "
                "its input is not what it was trained on"
            )
        return found


class ImagesModel:
    """A recognizer, as of an ONNX file; the embeddings have length 1."""

    unit = True
    trained_on: tuple[str, ...] | None = None

    def __init__(self, recognizer: Recognizer) -> None:
        self._recognizer = recognizer
        self.name, self.digest, self.dim = recognizer.name, recognizer.digest, recognizer.dim
        self._shape = recognizer.model.shape
        self._reading = recognizer.reading if len(self._shape) == 3 else None
        self.largest = int(np.prod(self._shape)) * (1 if self._reading else 4)

    def check(self, source: Source) -> None:
        """See `BulkModel`."""
        _check_shape(self.name, self._shape, self._reading, source)

    def prepare(self, sample: bytes | Array, name: str, inverted: bool | None) -> Array:
        """See `BulkModel`."""
        return _fitted(sample, name, self._reading, inverted)

    def embed(self, samples: Array) -> npt.NDArray[np.float32]:
        """See `BulkModel`."""
        return self._recognizer.embed_arrays(samples)


class FacesModel:
    """The main face of each photo; the embeddings have length 1."""

    unit = True
    trained_on: tuple[str, ...] | None = None
    largest = 1 << 19  # so that few photos, which may be large, are decoded at a time

    def __init__(self, recognizer: "FaceRecognizer") -> None:
        self._recognizer = recognizer
        self.name, self.digest, self.dim = recognizer.name, recognizer.digest, recognizer.dim

    def check(self, source: Source) -> None:
        """See `BulkModel`."""
        if source.features:
            raise OptionError(f"faces are found in photos, and {source.name} holds features")

    def prepare(self, sample: bytes | Array, name: str, inverted: bool | None) -> Array:
        """See `BulkModel`; raises `NoFaceError` where there is no face that is large enough."""
        if inverted and isinstance(sample, np.ndarray):
            sample = 255 - sample
        return self._recognizer.faces.crop(sample, name)

    def embed(self, samples: Array) -> npt.NDArray[np.float32]:
        """See `BulkModel`."""
        return self._recognizer.recognizer.embed(samples)


def open_model(run: Path, faces: str | None = None, device: str = "auto") -> BulkModel:
    """The network of a run, that of an ONNX file, or either on the faces in photos."""
    if not _embeds_images(run, faces):
        return TrainedModel(Run.open(run), device)
    recognizer = load_model(run, faces, device=device)
    return ImagesModel(recognizer) if isinstance(recognizer, Recognizer) else FacesModel(recognizer)


def open_inputs(
    run: Path, data: str | None = None, part: str = "all", faces: str | None = None
) -> Source:
    """What is to be embedded: any data, or of the run's own data, which is the default, a part.

    Raises `OptionError` for a part of anything else.
    """
    if _embeds_images(run, faces):
        if data is None:
            raise OptionError("no data: name a folder with a sub-folder of images per identity")
        if part != "all":
            raise OptionError(f"--part {part} is for a run and its own data")
        return open_source(data)
    opened = Run.open(run)
    trained_on = opened.config.data
    is_path = data is not None and data not in DATASETS
    if data is not None and trained_on not in (data, str(Path(data).resolve()) if is_path else ""):
        if part != "all":
            raise OptionError(
                f"--part {part} is a part of {trained_on}, the run's data, not {data}"
            )
        return open_source(data)
    check_not_given(opened)
    if part == "all":
        has_mapping = opened.config.mapping is not None
        mapping = ClassMapping.load(opened.mapping_file) if has_mapping else None
        return open_source(trained_on, mapping)
    check_choice("part", part, PARTS)
    images = getattr(selection_of(opened), part)
    if images is None:
        raise OptionError(
            f"the run has no {part} part: no classes were held out for it; see `arcset data split`"
        )
    return ArraySource(images, f"{Path(trained_on).name}, {part}", "part of a run's data")


def _embeds_images(run: Path, faces: str | None) -> bool:
    """Whether a recognizer embeds, and not the network of a run as it was trained."""
    is_onnx = run.suffix.lower() == ".onnx" and not run.is_dir()
    return is_onnx or faces not in (None, "none")


def _check_shape(name: str, shape: Sequence[int], reading: Reading | None, source: Source) -> None:
    if source.features and source.shape != tuple(shape):
        raise OptionError(f"{name} takes {_size(shape)}, and these are {_size(source.shape or ())}")
    if not source.features and reading is None:
        raise OptionError(f"{name} takes {_size(shape)}, and {source.name} holds images")


def _size(shape: Sequence[int]) -> str:
    if len(shape) == 1:
        return f"vectors of {shape[0]} values"
    channels, height, width = shape
    kind = {1: "grey", 3: "RGB"}.get(channels, f"of {channels} channels")
    return f"images of {width}×{height} {kind}"


def _fitted(
    sample: bytes | Array, name: str, reading: Reading | None, inverted: bool | None
) -> Array:
    """An image in the shape of `reading`; features, and what fits already, as they are."""
    if isinstance(sample, bytes):
        assert reading is not None  # or `check` had refused
        return reading.read(sample, name)
    if reading is None or sample.dtype != np.uint8:
        return sample
    again = replace(reading, invert=inverted is not None and reading.invert != inverted)
    return sample if sample.shape == reading.shape and not again.invert else again.read(sample)
