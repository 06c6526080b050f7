"""Images to unit embeddings, and whether two are the same."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import numpy.typing as npt
from PIL import Image

from arcset.data import Reading
from arcset.data.decode_many import decode_many, in_chunks, reason
from arcset.data.image import Fit
from arcset.errors import ArcsetError, DataError, InputError, OptionError, RunError
from arcset.evaluation.calibration import Thresholds
from arcset.recognition.decisions import NO_FACE, Verification, decide
from arcset.recognition.inputs import (
    ImageFile,
    Published,
    SourceImage,
    as_sources,
    files_of,
    image_name,
    pixels_for,
    read_image,
)
from arcset.text import plural, skipped_lines

if TYPE_CHECKING:  # torch is imported where a run or a module is loaded, OpenCV where faces are
    from torch import nn

    from arcset.recognition.faces import Face, FaceRecognizer
    from arcset.runs import Run

#: (N, D), unit rows.
Embeddings = npt.NDArray[np.float32]

#: Called with how many images are done, of how many.
Progress = Callable[[int, int], None]


class NoFaceError(DataError):
    """A photo shows no face, or none that is large enough."""


@dataclass(frozen=True, eq=False)
class Embedded:
    """The embeddings of image files.

    Fields:
        paths: the files that could be read, (N,); where all faces of photos are embedded, as often
            as there are faces in them.
        embeddings: (N, D) float32, unit rows, in the order of `paths`.
        skipped: the files that could not be, and why, in half a sentence.
        notes: what people should know of some of the files, in a sentence each.
        faces: where in its photo each face is, (N,); empty where whole images are embedded.
        faceless: photos that show no face, or none that is large enough, in words.
    """

    paths: tuple[ImageFile, ...]
    embeddings: Embeddings
    skipped: Mapping[ImageFile, str]
    notes: Mapping[ImageFile, str] = field(default_factory=dict)
    faces: "tuple[Face, ...]" = ()
    faceless: Mapping[ImageFile, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.paths)

    def json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "paths": [str(path) for path in self.paths],
            "embeddings": self.embeddings.tolist(),
            "skipped": {str(path): why for path, why in self.skipped.items()},
        }


@dataclass(frozen=True, eq=False)
class EmbeddedImage:
    """The embeddings of one image: of the whole, or of the faces in it.

    Fields:
        embeddings: (K, D) float32, unit rows; K = 1 for a whole image, 0 where there is no face.
        faces: where they are, the face in the middle first, (K,); empty for a whole image.
        count: how many faces the photo shows, K or more; None for a whole image.
        why: why there is no face, in half a sentence; else empty.
        name: what messages call the image.
    """

    embeddings: Embeddings
    faces: "tuple[Face, ...]" = ()
    count: int | None = None
    why: str = ""
    name: str = "the image"

    @property
    def note(self) -> str:
        """Which face of several was taken, as a sentence; empty where all were."""
        if self.count is None or self.count <= len(self.faces):
            return ""
        return f"{self.name} shows {self.count} faces, and the {self.faces[0]} was taken"


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a network gets of one image: samples (K,), arrays of one shape; the rest is as of
    `EmbeddedImage`."""

    samples: Sequence[npt.NDArray[Any]]
    faces: "tuple[Face, ...]" = ()
    count: int | None = None
    why: str = ""


class ImageEmbedder(ABC):
    """Images to unit embeddings, always by the same model: a `Recognizer`, a `FaceRecognizer`.

    A subclass says how one image is prepared and how samples are embedded. Reading many images in
    several threads, and skipping those that cannot be read, is the same for all.

    Attributes:
        name: what people call it.
        dim: D, the length of an embedding.
        digest: 64 hexadecimal digits: equal for models that give the same embeddings.
        thresholds: from cosines to decisions and probabilities; None without a calibration.
        published: the threshold that the makers of the network published, if that is known; it is
            used, and said to be theirs, where there are no others.
        trained_on: identities that the network was trained on, where that is known.
        origin: the run or ONNX file, and how faces are found, from which `load_model` makes the
            same; None where it takes more than these.
    """

    published: Published | None = None
    trained_on: tuple[str, ...] = ()
    origin: "tuple[Path, str | None] | None" = None

    def __init__(self, name: str, dim: int, digest: str, thresholds: Thresholds | None) -> None:
        self.name, self.dim, self.digest, self.thresholds = name, dim, digest, thresholds

    @property
    @abstractmethod
    def _chunk(self) -> int:
        """How many images are read, and then embedded, at a time."""

    @abstractmethod
    def _prepare(self, source: Any, most: int | None) -> Prepared:
        """Read one image, and find up to `most` faces in it; called by several threads."""

    @abstractmethod
    def _embed(self, samples: npt.NDArray[Any]) -> Embeddings:
        """Prepared samples (K, …), stacked, to (K, D)."""

    def embed(self, images: Any, *, progress: Progress | None = None) -> Embeddings:
        """Embeddings of one image or many: (N, D) float32, unit rows.

        images: a file, a PIL image, the bytes of a file, a uint8 array (H, W) or (H, W, C); a list
            of these; arrays (N, H, W) or (N, H, W, C); or a folder: all images below it, sorted by
            path. A model of vectors takes arrays (F,) or (N, F).
        progress: called now and then with how many are done, of how many.

        Where faces are embedded it is the main face of each photo. Raises `DataError` for the first
        that cannot be read, `NoFaceError` for the first photo without a face that is large enough,
        and `InputError` for what is no image; `embed_files` goes on instead.
        """
        embedded = self.embed_each(images, most=1, progress=progress)
        for image in embedded:
            if image.why:
                raise NoFaceError(f"{image.name} {image.why}")
        return np.concatenate([image.embeddings for image in embedded])

    def embed_each(
        self, images: Any, *, most: int | None = None, progress: Progress | None = None
    ) -> list[EmbeddedImage]:
        """Each of the images by itself, with all its faces where faces are embedded.

        most: how many faces of a photo are embedded, the one in the middle first; all by default.
        Raises as `embed` does, but not for a photo without a face.
        """
        embedded = []
        for _, image in self._embed_chunks(as_sources(images), most, progress):
            if isinstance(image, ArcsetError):
                raise image
            embedded.append(image)
        return embedded

    def embed_files(
        self,
        paths: ImageFile | str | Iterable[ImageFile | str],
        *,
        progress: Progress | None = None,
    ) -> Embedded:
        """Embeddings of image files, and of all images below folders; each file once.

        Files that cannot be read are listed in `skipped`, and the others embedded: of photos the
        main face, where faces are embedded; those without one are skipped, and `notes` say which of
        several was taken. Raises `DataError` for a folder without images.
        """
        main = self._embed_paths(paths, 1, progress)
        skipped = {**main.skipped, **main.faceless}
        return Embedded(main.paths, main.embeddings, skipped, main.notes)

    def embed_all(
        self,
        paths: ImageFile | str | Iterable[ImageFile | str],
        *,
        progress: Progress | None = None,
    ) -> Embedded:
        """The same with every face of each photo, the main one first."""
        return self._embed_paths(paths, None, progress)

    def verify(
        self, a: Any, b: Any, *, far: float | None = None, threshold: float | None = None
    ) -> Verification:
        """Whether two images show the same identity; a photo without a face leaves it undecided.

        far: the rate of false "same" among different pairs that the threshold is for; 1e-3 if left
            out, or the lowest that the calibration supports. threshold: a cosine instead.

        Raises `OptionError` where the model has no calibration and a FAR is asked for, and what
        `embed` raises.
        """
        images = [self.embed_each([image], most=1)[0] for image in (a, b)]
        for image in images:
            if image.why:
                why = f"{image.name} {image.why}"
                return Verification(None, None, None, None, None, NO_FACE, note=why)
        first, second = (image.embeddings[0] for image in images)
        cosine = float(first @ second)
        answer = decide(
            cosine,
            self.thresholds,
            far=far,
            threshold=threshold,
            model=self.name,
            published=self.published,
        )
        notes = [*(image.note for image in images), answer.note]
        return replace(answer, note="; ".join(note for note in notes if note))

    def calibrate(
        self, source: Path | str, *, samples: int = 1, progress: Progress | None = None
    ) -> Thresholds:
        """Make thresholds from identities of the kind that it will meet, and use them from now on.

        source: a folder with a sub-folder per identity, a table of path and label, records, a pack,
            arrays, the name of a dataset, or embeddings that this model made. Identities that a run
            was trained on are left out, and images that cannot be used; warnings say so.
        samples: how many samples a gallery will hold of each subject.

        They stay in memory: `recognizer.thresholds.save(RUN / "threshold.json")` keeps them for a
        run, and the file is what `from_onnx(…, thresholds=…)` takes. Of a `FaceRecognizer` they are
        its own, and not those of the network within.
        """
        from arcset.recognition.calibration import embed_identities

        identities = embed_identities(self, source, progress)
        for line in (*identities.notes, *skipped_lines(identities.skipped)):
            warnings.warn(line, stacklevel=2)
        self.thresholds = identities.calibrate(samples)
        return self.thresholds

    def _embed_chunks(
        self, sources: Sequence[Any], most: int | None, progress: Progress | None
    ) -> Iterator[tuple[Any, EmbeddedImage | DataError | InputError]]:
        """Every image in its turn, with its embeddings or with why it cannot be read."""
        done = 0
        chunks = in_chunks(sources, self._chunk)
        for chunk in decode_many(chunks, partial(self._prepare, most=most)):
            prepared = [image for _, image in chunk if isinstance(image, Prepared)]
            samples = [sample for image in prepared for sample in image.samples]
            rows = self._embed(np.stack(samples)) if samples else np.empty((0, self.dim), "f4")
            done += len(chunk)
            if progress is not None:
                progress(done, len(sources))
            start = 0
            for source, image in chunk:
                if not isinstance(image, Prepared):
                    yield source, image
                    continue
                part = rows[start : start + len(image.samples)]
                start += len(part)
                name = image_name(source, "the image" if image.count is None else "the photo")
                yield source, EmbeddedImage(part, image.faces, image.count, image.why, name)

    def _embed_paths(
        self,
        paths: ImageFile | str | Iterable[ImageFile | str],
        most: int | None,
        progress: Progress | None,
    ) -> Embedded:
        readable: list[ImageFile] = []
        faces: list[Face] = []
        parts = [np.empty((0, self.dim), np.float32)]
        skipped: dict[ImageFile, str] = {}
        faceless: dict[ImageFile, str] = {}
        notes: dict[ImageFile, str] = {}
        for path, image in self._embed_chunks(files_of(paths), most, progress):
            if isinstance(image, ArcsetError):
                skipped[path] = reason(image, str(path))
            elif image.why:
                faceless[path] = image.why
            else:
                readable += [path] * len(image.embeddings)
                faces += image.faces
                parts.append(image.embeddings)
                if image.note:
                    notes[path] = image.note
        rows = np.concatenate(parts)
        return Embedded(tuple(readable), rows, skipped, notes, tuple(faces), faceless)


class Model(Protocol):
    """What computes: arrays in, embeddings of any length out."""

    shape: tuple[int, ...]  # of one sample: (C, H, W) of images, (F,) of vectors
    dim: int
    digest: str
    takes_faces: bool  # whether its images are to be aligned faces

    def run(self, samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """(N, H, W), (N, H, W, C) or (N, F) to (N, D)."""


class Recognizer(ImageEmbedder):
    """A trained embedding, ready for images.

    Made by `Recognizer.load` of a run, `Recognizer.from_onnx` or `Recognizer.from_module`. Its
    attributes are those of `ImageEmbedder`, and `model`: what computes. The digest of a run is
    that of its own export.
    """

    def __init__(
        self,
        model: Model,
        *,
        name: str,
        reading: Reading | None,
        thresholds: Thresholds | None = None,
    ) -> None:
        if thresholds is not None and thresholds.made_from["dimension"] != model.dim:
            raise RunError(
                f"the thresholds of {name} are for {thresholds.made_from['dimension']} dimensions, "
                f"and it embeds in {model.dim}: make them anew with `arcset evaluate`"
            )
        super().__init__(name, model.dim, model.digest, thresholds)
        self.model = model
        self._reading = reading

    def _from(self, path: Path) -> Self:
        self.origin = path, "none" if self.model.takes_faces else None
        return self

    @classmethod
    def load(
        cls, run: "Run | Path | str", *, device: str = "auto", network: "nn.Module | None" = None
    ) -> "Recognizer":
        """A run or its folder, with the thresholds in its threshold.json; or an ONNX file.

        A run as `arcset.train` returns it is in memory already, and nothing is loaded again.
        device: auto, cpu, cuda or mps.
        network: the module of a run whose network was given in Python; it gets the run's weights.
        Raises `RunError` where there is no trained run, `OptionError` for a device that is not
        there; for ONNX files see `from_onnx`.
        """
        path = Path(run) if isinstance(run, str | Path) else run.path
        if path.suffix.lower() == ".onnx" and not path.is_dir():
            if network is not None:
                raise OptionError(f"{path} holds its network itself: leave network=… out")
            return cls.from_onnx(path, device=device)
        if not path.is_dir():
            why = "is neither" if path.exists() else "does not exist"
            raise RunError(f"{path} {why}: name the folder of a trained run, or an .onnx file")
        from arcset.recognition.torch_models import TorchModel
        from arcset.runs import Run
        from arcset.runs.config import GIVEN
        from arcset.runs.data import reading_of

        opened = Run.open(path) if isinstance(run, str | Path) else run
        file = path / "threshold.json"
        made = cls(
            TorchModel.of_run(opened, device, network),
            name=path.resolve().name,
            reading=reading_of(opened.config),
            thresholds=Thresholds.load(file) if file.exists() else None,
        )
        made.trained_on = opened.config.class_names or ()
        return made if opened.config.network == GIVEN else made._from(path)

    @classmethod
    def from_onnx(
        cls,
        path: Path | str,
        *,
        preset: str | None = None,
        size: int | tuple[int, int] | None = None,
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        channels: str | None = None,
        fit: Fit | None = None,
        invert: bool = False,
        layout: str | None = None,
        output: str | None = None,
        thresholds: Thresholds | Path | str | None = None,
        name: str | None = None,
        device: str = "auto",
    ) -> "Recognizer":
        """A network in an ONNX file: one that `arcset export` made, or one from elsewhere.

        A file that arcset made says everything itself. For others:

        preset: pixels as a family of networks wants them; see `arcset.recognition.PRESETS`.
        mean, std: (x − mean) / std on values of 0 … 255, one number or one per channel; instead of
            a preset, or in place of its own. Networks that take uint8 need none.
        size: height and width, or one number for both, where the graph leaves them open.
        channels: the order that the network expects, RGB (default) or BGR.
        fit, invert: how images are read, see `Reading`.
        layout: NCHW or NHWC, where the graph does not tell.
        output: the name of the output to take, where there are several.
        thresholds: a calibration of this model, or its file; without, `verify` needs a threshold.
        name: what people call it; the file's name if left out.
        device: auto, cpu or cuda.

        Raises `DataError` for a file that is missing, damaged, no ONNX model, or takes or needs
        something else than images; `OptionError` where an option is missing, wrong or needless.
        No code in the file is ever run: it has operators of ONNX and ONNX Runtime, or is refused.
        """
        from arcset.recognition.onnx_model import open_onnx  # slow to import, used by few

        options = {
            "preset": preset,
            "size": size,
            "mean": mean,
            "std": std,
            "channels": channels,
            "fit": fit,
            "invert": invert or None,
            "layout": layout,
            "output": output,
        }
        given = {key: value for key, value in options.items() if value is not None}
        model = open_onnx(Path(path), given, device)
        made = cls(
            model,
            name=name or model.name,
            reading=model.reading,
            thresholds=read_thresholds(thresholds) or model.thresholds,
        )
        made.published = model.published
        return made if given or thresholds or name else made._from(Path(path))

    @classmethod
    def from_module(
        cls,
        network: "nn.Module",
        *,
        size: int | tuple[int, int],
        mean: float | Sequence[float] = 127.5,
        std: float | Sequence[float] = 127.5,
        channels: str = "RGB",
        fit: Fit | None = None,
        invert: bool = False,
        thresholds: Thresholds | Path | str | None = None,
        name: str = "module",
        device: str = "auto",
    ) -> "Recognizer":
        """Any torch module that turns images (N, C, H, W) into embeddings (N, D).

        size: height and width of its images, or one number for both.
        mean, std: (x − mean) / std on values of 0 … 255, one number or one per channel; left out,
            they come to −1 … 1, as the networks of arcset have it. Of 0 … 1, multiply by 255.
        channels: RGB, BGR or grey, as the network expects.
        fit, invert, thresholds, name: as of `from_onnx`.
        device: auto, cpu, cuda or mps. The module is moved there and put into evaluation mode;
            train it no further: its embeddings would no longer be those of a gallery.

        Raises `InputError` where it does not take such images, or gives no (N, D).
        """
        from arcset.recognition.torch_models import TorchModel

        is_grey = str(channels).lower() in ("grey", "gray")
        order = "RGB" if is_grey else channels
        pixels = pixels_for(None, mean=mean, std=std, channels=order, fit=fit, invert=invert)
        height, width = (size, size) if isinstance(size, int) else size
        reading = Reading(1 if is_grey else 3, height, width, fit=pixels.fit, invert=invert)
        model = TorchModel.of_module(network, (reading.channels, height, width), pixels, device)
        return cls(model, name=name, reading=reading, thresholds=read_thresholds(thresholds))

    @property
    def reading(self) -> Reading:
        """How images become arrays; raises `OptionError` where the model takes none."""
        if self._reading is None:
            raise OptionError(
                f"{self.name} takes {_described(self.model.shape)}, and no images: embed arrays"
            )
        return self._reading

    def embed_each(
        self, images: Any, *, most: int | None = None, progress: Progress | None = None
    ) -> list[EmbeddedImage]:
        """Each of the images by itself, as `ImageEmbedder` has it; of a model of vectors, each."""
        if self._reading is None:
            return [EmbeddedImage(row[None]) for row in self.embed_arrays(images)]
        return super().embed_each(images, most=most, progress=progress)

    def embed_arrays(self, samples: Any) -> Embeddings:
        """Embeddings of samples as the network was trained on them: (N, D), unit rows.

        samples: uint8 images that need no more reading (they have their size, and are inverted
            where the model wants it), or features of anything else as floats: (N, H, W),
            (N, H, W, C) or (N, F), or one of them.

        Raises `InputError` for another shape or type, and for values that are not finite.
        """
        return self._embed(self._check_samples(samples))

    def _check_samples(self, samples: Any) -> npt.NDArray[Any]:
        """One or several samples as the network takes them, (N, …)."""
        try:
            rows = np.asarray(samples)
        except (ValueError, TypeError):  # rows of different lengths
            raise InputError("the samples are not an array: their shapes differ") from None
        inner = _inner(self.model.shape)
        if rows.shape in inner:
            rows = rows[None]
        is_pictures = rows.dtype == np.uint8 and self._reading is not None
        is_numbers = rows.dtype.kind == "f" or (rows.dtype.kind in "iu" and self._reading is None)
        if rows.shape[1:] not in inner or not (is_pictures or is_numbers) or not len(rows):
            raise InputError(
                f"{self.name} takes {_described(self.model.shape)}, and this is an array of "
                f"{rows.dtype}, {rows.shape}"
            )
        if is_numbers:
            rows = rows.astype(np.float32, copy=False)
            if not np.isfinite(rows).all():
                raise InputError(f"{self.name} takes finite values, and some are NaN or infinite")
        return rows

    @property
    def _chunk(self) -> int:
        size = math.prod(self.model.shape) * (1 if len(self.model.shape) == 3 else 4)
        return max(1, min(_CHUNK_IMAGES, _CHUNK_BYTES // size))

    def _prepare(self, source: Any, most: int | None) -> Prepared:
        if self._reading is None and not isinstance(source, str | Path | bytes | Image.Image):
            content = source.content() if isinstance(source, SourceImage) else source
            return Prepared(list(self._check_samples([content])))  # exactly one
        return Prepared([read_image(source, self.reading)])

    def _embed(self, samples: npt.NDArray[Any]) -> Embeddings:
        rows = self._embed_raw(samples)
        peaks = np.abs(rows).max(axis=1, keepdims=True)  # (N, 1)
        if not peaks.all():
            raise self._useless("zero")
        scaled = rows / peaks  # so that neither 1e-30 nor 1e+30 is lost when squared
        unit: Embeddings = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
        return unit

    def _embed_raw(self, samples: npt.NDArray[Any]) -> Embeddings:
        """Prepared samples to embeddings of the length that the network gives them."""
        rows = self.model.run(samples)
        if not np.isfinite(rows).all():
            raise self._useless("not finite")
        return rows

    def _useless(self, what: str) -> DataError:
        return DataError(
            f"{self.name} gives embeddings that are {what}: its weights are damaged, or its input "
            "is not what it was trained on"
        )

    def __repr__(self) -> str:
        return f"<Recognizer {self.name}, {self.dim}-D, {self.digest[:12]}>"


def read_thresholds(given: Thresholds | Path | str | None) -> Thresholds | None:
    """A calibration that is handed over, or its file."""
    return Thresholds.load(given) if isinstance(given, str | Path) else given


_CHUNK_BYTES, _CHUNK_IMAGES = 1 << 24, 512  # that are read before they are embedded


def _inner(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """How one sample of a network's shape may look as an array: channels last, or left out."""
    if len(shape) == 1:
        return (shape,)
    channels, height, width = shape
    last = (height, width, channels)
    return (last, (height, width)) if channels == 1 else (last,)


def _described(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"vectors of {shape[0]} values"
    channels, height, width = shape
    return f"arrays of {height}×{width} with {plural(channels, 'channel')}"


def load_model(
    model: Path | str, faces: str | None = None, *, device: str = "auto"
) -> "Recognizer | FaceRecognizer":
    """A recognizer; of the faces in photos, where `faces` says so."""
    loaded = with_faces(Recognizer.load(model, device=device), faces)
    loaded.origin = Path(model), faces  # so that "auto" is found on another machine, too
    return loaded


def with_faces(recognizer: Recognizer, faces: str | None) -> "Recognizer | FaceRecognizer":
    """The recognizer, applied to the faces in photos where `faces` is "auto" or a detector's file.

    Raises `OptionError` where `faces` is left out, and the network takes aligned faces.
    """
    if faces is None and recognizer.model.takes_faces:
        raise OptionError(
            f"the model {recognizer.name!r} takes aligned faces: add --faces auto to find them in "
            "photos, or --faces none if the images are aligned faces already"
        )
    if faces in (None, "none"):
        return recognizer
    # OpenCV is an extra, and slow to import.
    from arcset.recognition.faces import FaceRecognizer, Faces

    return FaceRecognizer(recognizer, Faces.load(None if faces == "auto" else faces))
