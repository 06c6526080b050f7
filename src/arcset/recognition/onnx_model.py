"""An ONNX file as something that embeds arrays, computed by ONNX Runtime.

`open_onnx` makes an `OnnxModel`: of a file that arcset wrote, by its `Label`; of another one, by
what the caller says about its images. `adopt` writes these options into such a file.

A file may come from anywhere. It has operators of ONNX and ONNX Runtime, or ONNX Runtime refuses
it; weights outside of its folder are not read; and before it runs in this process it has run in
another one, see `run_apart`.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from google.protobuf.message import Message
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    PlainSerializer,
    StringConstraints,
    ValidationError,
    model_validator,
)

from arcset.checks import check_choice
from arcset.data import Reading
from arcset.data.image import Fit, read_file
from arcset.errors import ArcsetError, DataError, InputError, OptionError
from arcset.evaluation.calibration import Thresholds
from arcset.files import cache_folder, file_digest, reading, replacing, write_text
from arcset.recognition.inputs import (
    FACE_PRESETS,
    PUBLISHED,
    Pixels,
    Published,
    pixels_for,
    preset_names,
)
from arcset.recognition.recognizer import read_thresholds

MOST_BYTES = (1 << 31) - 1  # that a protocol buffer can hold


@dataclass(frozen=True, eq=False)
class OnnxFile:
    """An ONNX file, and what was found in it.

    content: its bytes. metadata: what its maker wrote into it. graph: SHA-256 over graph,
    functions, operator versions and weights. external: whether weights are kept in other files.
    digest: SHA-256 over all bytes, of the other files, too. size: how many they are.
    inputs: what must be given to the graph. outputs: the names of what it computes.
    """

    path: Path
    content: bytes
    metadata: dict[str, str]
    graph: str
    external: bool
    digest: str
    size: int
    inputs: tuple[onnx.ValueInfoProto, ...]
    outputs: tuple[str, ...]


def read_onnx(path: Path) -> OnnxFile:
    """Read and look through an ONNX file; nothing in it is run.

    Raises `DataError` for a file that is missing, damaged, larger than 2 GiB or no ONNX model, and
    for one whose weights lie outside of its folder.
    """
    content = read_file(path, most=MOST_BYTES)
    with reading(path, "ONNX model"):
        model = onnx.load_model_from_string(content)
        # Of other files the parser takes some for a model with nothing in it that it knows.
        if not (model.ir_version and len(model.graph.node) and len(model.opset_import)):
            raise DataError(f"{path} is no ONNX model, or is damaged")
        external = {_weights_file(path, each) for each in _tensors(model) if each.data_location}
        apart = sorted(external)
        digests = [bytes.fromhex(file_digest(file)) for file in apart]
        graph = graph_digest(model, digests)
    whole = hashlib.sha256(content)
    for digest in digests:
        whole.update(digest)
    # Weights may be listed among the inputs, as values that could be replaced.
    weights = {each.name for each in model.graph.initializer}
    weights |= {each.values.name for each in model.graph.sparse_initializer}
    return OnnxFile(
        path,
        content,
        metadata={each.key: each.value for each in model.metadata_props},
        graph=graph,
        external=bool(apart),
        digest=whole.hexdigest(),
        size=len(content) + sum(file.stat().st_size for file in apart),
        inputs=tuple(each for each in model.graph.input if each.name not in weights),
        outputs=tuple(each.name for each in model.graph.output),
    )


def graph_digest(model: onnx.ModelProto, apart: Iterable[bytes] = ()) -> str:
    """SHA-256 over all of a model that decides what it computes; not over names, dates and notes.

    apart: the digests of the files that weights are kept in.
    """
    digest = hashlib.sha256()
    parts: list[Any] = [*model.opset_import, *model.functions, model.graph]
    for part in parts:
        digest.update(part.SerializeToString(deterministic=True))
    for other in apart:
        digest.update(other)
    return digest.hexdigest()


def _tensors(message: Message) -> Iterator[onnx.TensorProto]:
    """Every constant anywhere in a model: weights, and values within nodes and functions."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in [value] if isinstance(value, Message) else value:
            if isinstance(part, onnx.TensorProto):
                yield part
            else:
                yield from _tensors(part)


def _weights_file(path: Path, tensor: onnx.TensorProto) -> Path:
    """The file that a tensor is kept in, which must lie in the model's folder."""
    location = {each.key: each.value for each in tensor.external_data}.get("location", "")
    folder = path.parent.resolve()
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # zero bytes, links in a circle
        file: Path = (folder / location).resolve()
        if file.is_relative_to(folder) and file.is_file():
            return file
    raise DataError(
        f"{path} keeps weights in {location!r}, which is no file in its own folder: weights are "
        "read from nowhere else"
    )


# What arcset writes into a file, so that it needs no further word to be used

FORMAT = 1
_PREFIX = "arcset."
_LONGEST_NAME = 255


def _one_or_three(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(values) not in (1, 3):
        raise ValueError("expected one value or three")
    return values


def _is_name(name: str) -> str:
    if not (name.isprintable() and 0 < len(name) <= _LONGEST_NAME):
        raise ValueError(f"expected 1 to {_LONGEST_NAME} letters that can be shown")
    return name


def _as_thresholds(content: Any) -> Thresholds:
    try:
        return Thresholds.from_json(content)
    except (ArcsetError, ArithmeticError, LookupError, TypeError) as error:
        raise ValueError(str(error)) from None


_Thresholds = Annotated[
    Thresholds, BeforeValidator(_as_thresholds), PlainSerializer(Thresholds.json)
]
_Side = Annotated[int, Field(ge=1, lt=1 << 31)]
_Mean = Annotated[float, Field(gt=-1e30, lt=1e30)]
_Std = Annotated[float, Field(gt=0, lt=1e30)]


class _Scale(BaseModel):
    """Entry `pixels`: what becomes of pixels of 0 … 255 before the graph gets them."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")

    mean: Annotated[tuple[_Mean, ...], AfterValidator(_one_or_three)] | None
    std: Annotated[tuple[_Std, ...], AfterValidator(_one_or_three)] | None
    channels: Literal["RGB", "BGR"]


class Label(BaseModel):
    """A model's name, digest and thresholds, and how images become its input.

    Kept in the file's `metadata_props` as arcset.name and so on, all but name and digest as JSON:
    shape (C, H, W); pixels, null for features; fit and invert, how images are read; layout and
    output; thresholds; published, a threshold of the network's makers; faces, true where the
    network takes aligned faces. Beside them are arcset.format, and arcset.graph: the SHA-256 of the
    graph, by which a file that was changed is recognized.
    """

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    name: Annotated[str, AfterValidator(_is_name)]
    digest: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    shape: Json[Annotated[tuple[_Side, ...], AfterValidator(_one_or_three)]]
    pixels: Json[_Scale | None]
    layout: Json[Literal["NCHW", "NHWC"] | None]
    output: Json[str | None]
    fit: Json[Fit | None] = None
    invert: Json[bool | None] = None
    thresholds: Json[_Thresholds | None] = None
    faces: Json[bool | None] = None
    published: Json[Published | None] = None

    @model_validator(mode="after")
    def _check_pixels(self) -> Self:
        scale = self.pixels
        if scale is not None and (
            self.fit is None or self.invert is None or (scale.mean is None) != (scale.std is None)
        ):
            raise ValueError("expected fit, invert, and mean with std")
        return self

    @classmethod
    def read(cls, file: OnnxFile) -> "Label | None":
        """From a file; None where it has no metadata of arcset.

        Raises `DataError` where this is of another format, damaged, or not that of the graph.
        """
        texts = {
            key.removeprefix(_PREFIX): text
            for key, text in file.metadata.items()
            if key.startswith(_PREFIX)
        }
        if not texts:
            return None
        if texts.get("format") != str(FORMAT):
            raise DataError(
                f"{file.path} is of format {texts.get('format', 'none')!r:.60}, and this arcset "
                f"reads format {FORMAT}"
            )
        if texts.get("graph") != file.graph:
            raise DataError(f"{file.path} was changed since arcset made it: export the model again")
        try:
            return cls.model_validate(texts)
        except ValidationError as error:
            key = str((*error.errors()[0]["loc"], "pixels")[0])
            value = f"{texts[key]!r:.60}" if key in texts else "missing"
            raise DataError(
                f"{file.path} has damaged metadata: {_PREFIX}{key} is {value}"
            ) from None

    @classmethod
    def of(cls, name: str, pixels: Pixels | None, **fields: Any) -> "Label":
        """What is known of a model, to be written into its file; fields: the others."""
        printable = "".join(letter if letter.isprintable() else "?" for letter in name)
        return cls.model_construct(
            name=printable[:_LONGEST_NAME] or "model",
            pixels=pixels and _Scale.model_validate(pixels, from_attributes=True),
            fit=pixels and pixels.fit,
            invert=pixels and pixels.invert,
            **fields,
        )

    def write(self, model: onnx.ModelProto) -> None:
        """Into a model, in place of an earlier one."""
        texts = self.model_dump(round_trip=True)
        texts |= {"format": str(FORMAT), "graph": graph_digest(model)}
        props = {each.key: each.value for each in model.metadata_props}
        others = {key: text for key, text in props.items() if not key.startswith(_PREFIX)}
        written = {_PREFIX + key: text for key, text in texts.items()}
        onnx.helper.set_model_props(model, others | written)

    def as_pixels(self) -> Pixels | None:
        """How images become the graph's input; None for features."""
        scale = self.pixels
        if scale is None or self.fit is None:
            return None
        invert = self.invert or False
        return Pixels(scale.mean, scale.std, scale.channels, fit=self.fit, invert=invert)


# The model

_TYPES = ("uint8", "float16", "float32", "float64")
# Most samples, and most pixels, per call: of more, ONNX Runtime's layers fall out of the cache.
_SAMPLES, _PIXELS = 64, 2**16


def open_onnx(path: Path, options: Mapping[str, Any], device: str = "auto") -> "OnnxModel":
    """An ONNX file of arcset's own, or another with `options` about its input.

    options: preset, mean, std, channels, size, fit, invert, layout and output, as far as given.
    """
    file = read_onnx(path)
    label = Label.read(file)
    if label is not None:
        if options:
            raise OptionError(
                f"{path} was made by arcset and says itself how it takes images: leave out "
                f"{', '.join(options)}"
            )
        return _open_labelled(file, label, device)
    pixels = dict(options)
    layout, output, size, preset = (
        pixels.pop(key, None) for key in ("layout", "output", "size", "preset")
    )
    size = (size, size) if isinstance(size, int) else size
    model = OnnxModel(file, pixels_for(preset, **pixels), size, layout, output, device)
    model.takes_faces, model.published = preset in FACE_PRESETS, PUBLISHED.get(preset or "")
    return model


def _open_labelled(file: OnnxFile, label: Label, device: str) -> "OnnxModel":
    """A model with what its own label says, which must fit the graph."""
    misfit = f"{file.path} has metadata that does not fit its graph:"
    _providers_for(device)  # or it is refused as an option, and not as metadata
    try:
        size = label.shape[1:] or None
        model = OnnxModel(file, label.as_pixels(), size, label.layout, label.output, device)
    except OptionError as error:
        raise DataError(f"{misfit} {str(error).removeprefix(f'{file.path} ')}") from None
    model.name, model.digest, model.thresholds = label.name, label.digest, label.thresholds
    model.takes_faces, model.published = label.faces or False, label.published
    dim = model.dim if model.thresholds is None else model.thresholds.made_from["dimension"]
    if (model.shape, model.dim) != (label.shape, dim):
        raise DataError(f"{misfit} it takes {model.shape} and embeds in {model.dim} dimensions")
    return model


class OnnxModel:
    """The graph of an ONNX file.

    Parameters:
        pixels: what becomes of images of 0 … 255 before the graph gets them; None for graphs that
            take features, which are left as they are.
        size, layout, output: as of `Recognizer.from_onnx`.

    Attributes:
        name: the file's, or the one in its label. thresholds: those in its label.
        published: the threshold of the network's makers, of its preset or in its label.
        digest: of graph, weights and pixels, or the one in its label.
        takes_faces: whether its images are to be aligned faces.
        shape: of one sample, (C, H, W) or (F,). dim: the length of an embedding.
        reading: how images are read; None for models of vectors.

    Raises `DataError` where ONNX Runtime refuses the graph or it gives no embedding, `OptionError`
    where an option is missing.
    """

    def __init__(
        self,
        file: OnnxFile,
        pixels: Pixels | None,
        size: tuple[int, ...] | None,
        layout: str | None,
        output: str | None,
        device: str,
    ) -> None:
        self._path, self.name, self.takes_faces = file.path, file.path.stem, False
        self.thresholds: Thresholds | None = None
        self.published: Published | None = None
        self.input = _graph_input(file, layout)
        self.pixels = None if pixels is None else self._check_pixels(pixels)
        self.shape = self._shape(size)
        self.output = _choose_output(file, output)
        providers = _providers_for(device)
        run_apart(
            file,
            name=self.input.name,
            dtype=self.input.dtype.name,
            shape=_channels_last(self.shape) if self.input.layout == "NHWC" else self.shape,
            batches=(1, 2) if self.input.batch is None else (self.input.batch,),
            output=self.output,
        )
        self._session = _session(file, providers)
        self.dim = self._measure_dim()
        self.digest = self._make_digest(file.graph)

    @property
    def reading(self) -> Reading | None:
        if self.pixels is None:
            return None
        channels, height, width = self.shape
        return Reading(channels, height, width, fit=self.pixels.fit, invert=self.pixels.invert)

    def run(self, samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Samples as a dataset has them, (N, H, W[, C]) or (N, F), to (N, D), of any length."""
        prepared = self._prepare(samples)
        size = self.input.batch or max(1, min(_SAMPLES, _PIXELS // math.prod(self.shape[-2:])))
        parts = []
        for start in range(0, len(prepared), size):
            part = prepared[start : start + size]
            missing = (self.input.batch or len(part)) - len(part)
            if missing:  # a graph for exactly so many gets the last one again
                part = np.concatenate([part, np.repeat(part[-1:], missing, axis=0)])
            parts.append(self._call(part)[: len(part) - missing])
        return np.concatenate(parts)

    def _prepare(self, samples: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """As the graph takes them, each in memory of its own."""
        if self.input.layout == "NF":
            return np.ascontiguousarray(samples, dtype=self.input.dtype)
        images = samples[..., None] if samples.ndim == 3 else samples  # (N, H, W, C)
        if (images.dtype == np.uint8) != (self.pixels is not None):
            wanted = "floats, which are features" if self.pixels is None else "uint8 images"
            raise InputError(f"{self._path} takes {wanted}, and these are {images.dtype}")
        if self.pixels is not None:
            images = self.pixels.apply(images)
        if self.input.layout == "NCHW":
            images = images.transpose(0, 3, 1, 2)
        return np.ascontiguousarray(images, dtype=self.input.dtype)

    def _call(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        try:
            (rows,) = self._session.run([self.output], {self.input.name: batch})
        except Exception as error:  # each operator raises what it likes
            raise DataError(f"{self._path} cannot be computed: {_first_line(error)}") from None
        is_array = isinstance(rows, np.ndarray)  # or a sequence of them, or a map
        if not is_array or rows.ndim < 2 or len(rows) != len(batch) or rows.dtype.kind != "f":
            shape = rows.shape if is_array else "no array"
            raise DataError(
                f"{self._path} gives {shape} for {len(batch)} images, and a recognizer needs an "
                "embedding, a row of floats, for each"
            )
        matrix: npt.NDArray[np.float32] = rows.reshape(len(batch), -1).astype("f4", copy=False)
        return matrix

    def _check_pixels(self, pixels: Pixels) -> Pixels | None:
        """The options about pixels, which must fit what the graph takes."""
        if self.input.layout == "NF":
            return None
        channels = self.input.shape[0]
        if channels not in (1, 3):
            raise DataError(
                f"{self._path} takes images of {channels} channels as {self.input.layout}, and "
                "images have 1 or 3"
            )
        if self.input.dtype == np.uint8 and pixels.mean is not None:
            raise OptionError(
                f"{self._path} takes the bytes of images and scales them itself: leave out preset, "
                "mean and std"
            )
        if self.input.dtype != np.uint8 and pixels.mean is None:
            raise OptionError(
                f"{self._path} takes floats and does not say how pixels become floats: give mean "
                f"and std, or a preset, one of: {', '.join(preset_names())}; or write them into "
                f"the file for good, with `arcset export {self._path} --preset NAME --out NEW.onnx`"
            )
        if channels == 1 and 3 in {len(pixels.mean or ()), len(pixels.std or ())}:
            raise OptionError(f"{self._path} takes grey images: give one mean and one std")
        return pixels

    def _shape(self, size: tuple[int, ...] | None) -> tuple[int, ...]:
        """(C, H, W) or (F,), with the given size where the graph leaves it open."""
        if self.input.layout == "NF":
            return self.input.shape
        channels, *sides = self.input.shape
        if size is None and 0 in sides:
            size = None if self.pixels is None else self.pixels.size
            if size is None:
                raise OptionError(
                    f"{self._path} does not say which size of images it takes: give size"
                )
        wanted = sides if size is None else list(size)
        fits = [side in (0, want) for side, want in zip(sides, wanted, strict=False)]
        if len(wanted) != 2 or not all(fits):
            listed = "×".join(str(side or "any") for side in sides)
            raise OptionError(f"{self._path} takes images of {listed} pixels, and size={size!r}")
        return (channels, *wanted)

    def _measure_dim(self) -> int:
        """The length of an embedding, found by making one."""
        dtype = np.float32 if self.pixels is None else np.uint8
        dim = self.run(np.ones((1, *_channels_last(self.shape)), dtype)).shape[1]
        if dim < 2:
            raise DataError(f"{self._path} gives one number per image, and no embedding")
        return int(dim)

    def _make_digest(self, graph: str) -> str:
        content = {
            "graph": graph,
            "output": self.output,
            "layout": self.input.layout,
            "shape": list(self.shape),
            "pixels": None if self.pixels is None else asdict(replace(self.pixels, size=None)),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class _GraphInput:
    """The only input of a graph.

    batch: how many samples at a time; None for any number. layout: "NCHW" or "NHWC" of images, "NF"
    of vectors. shape: (C, H, W) of images, (F,) of vectors; 0 where the graph leaves it open.
    """

    name: str
    dtype: np.dtype[Any]
    batch: int | None
    layout: str
    shape: tuple[int, ...]


def _graph_input(file: OnnxFile, layout: str | None) -> _GraphInput:
    """What a graph takes; `layout` where it leaves that open."""
    if layout is not None:
        check_choice("layout", layout, ("NCHW", "NHWC"))
    if len(file.inputs) != 1:
        names = ", ".join(repr(each.name) for each in file.inputs[:5])
        raise DataError(
            f"{file.path} takes {len(file.inputs)} inputs ({names}), and a recognizer needs a "
            "network that takes images and nothing else"
        )
    name, tensor = file.inputs[0].name, file.inputs[0].type.tensor_type
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    except KeyError:
        dtype = np.dtype(object)
    if dtype.name not in _TYPES:
        raise DataError(f"{file.path} takes {dtype.name}, and images are uint8 or floats")
    batch, *sides = [max(0, side.dim_value) for side in tensor.shape.dim] or [0]
    if len(sides) == 1 and sides[0]:
        return _GraphInput(name, dtype, batch or None, "NF", (sides[0],))
    if len(sides) != 3:
        raise DataError(
            f"{file.path} takes an array of shape {(batch, *sides)} (0: left open), and images "
            "come as (N, C, H, W) or (N, H, W, C), vectors as (N, F)"
        )
    is_first, is_last = sides[0] in (1, 3), sides[2] in (1, 3)
    if layout is None and is_first == is_last:
        raise OptionError(
            f"{file.path} does not say where its channels are, in {(batch, *sides)} (0: left "
            "open): give layout='NCHW' or layout='NHWC'"
        )
    layout = layout or ("NCHW" if is_first else "NHWC")
    channels, height, width = sides if layout == "NCHW" else (sides[2], *sides[:2])
    return _GraphInput(name, dtype, batch or None, layout, (channels or 3, height, width))


def _choose_output(file: OnnxFile, output: str | None) -> str:
    chosen = file.outputs[0] if output is None and len(file.outputs) == 1 else output
    if chosen in file.outputs:
        return chosen
    listed = ", ".join(repr(name) for name in file.outputs[:8])
    raise OptionError(f"output={output!r} is no output of {file.path}: choose one of {listed}")


def _channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    return (*shape[1:], shape[0]) if len(shape) == 3 else tuple(shape)


# ONNX Runtime


def _session(file: OnnxFile, providers: list[str]) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised as well, with the same words
    options.intra_op_num_threads = thread_count()
    if file.external:
        folder = str(file.path.parent.resolve())
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", folder
        )
    try:
        # From the bytes that were looked through, and not from a file that may have changed.
        return onnxruntime.InferenceSession(file.content, options, providers=providers)
    except Exception as error:  # the classes are not public
        raise DataError(f"{file.path} cannot be loaded: {_first_line(error)}") from None


def thread_count() -> int:
    """As many as torch takes, whose setting holds for both where a program has imported it; else
    `OMP_NUM_THREADS`, which launchers set; else one for each core of this process."""
    if (torch := sys.modules.get("torch")) is not None:
        return int(torch.get_num_threads())
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given):
        return int(given)
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _providers_for(device: str) -> list[str]:
    """What ONNX Runtime computes with; raises `OptionError` for a device that is not there."""
    available = onnxruntime.get_available_providers()
    cuda, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
    if device == "cpu" or (device == "auto" and cuda not in available):
        return [cpu]
    if device in ("auto", "cuda") and cuda in available:
        return [cuda, cpu]
    usable = "auto, cpu or cuda" if cuda in available else "auto or cpu"
    raise OptionError(f"device {device!r} is not available here for ONNX files; use {usable}")


# The first run, in a process of its own

RECORDS = "ARCSET_ONNX_RECORDS"  # the folder of records; in the cache folder if not set
SECONDS, USUAL_SECONDS = "ARCSET_ONNX_SECONDS", 60.0
GIGABYTES = "ARCSET_ONNX_GIGABYTES"
# ONNX Runtime took 0.2 GB besides 3.2 times the size of the file, of files of 39 and 617 MB.
_CONSTANT, _TIMES = 2.0, 6  # GB, and times the size


def run_apart(file: OnnxFile, **task: Any) -> None:
    """Load and run a model once in another process, unless its file is remembered.

    A graph may loop without end, or make a tensor that fills all memory: nothing in the file tells
    before. What passes is remembered by the SHA-256 of the file, so that it is tried once.

    task: name, dtype and shape of a sample as the graph takes it, batches and output, for
        `onnx_trial`.

    Raises `DataError` where the model cannot be loaded or computed within the limits, and
    `OptionError` where a limit is set to something else than a number.
    """
    seconds = _limit_of(SECONDS, USUAL_SECONDS)
    gigabytes = _limit_of(GIGABYTES, _CONSTANT + _TIMES * file.size / 2**30)
    # Where records cannot be read, a file is tried each time. RuntimeError: no home folder.
    with contextlib.suppress(OSError, RuntimeError):
        if _record(file.digest).is_file():
            return
    task |= {"seconds": seconds, "memory": int(gigabytes * 2**30)}
    task["folder"] = str(file.path.parent.resolve()) if file.external else None
    # By its path, and without its folder among those that modules are imported from.
    program = str(Path(__file__).with_name("onnx_trial.py"))
    command = [sys.executable, "-P", program, json.dumps(task)]
    stopped = f"{file.path} was stopped: its first run"
    try:
        ended = subprocess.run(command, input=file.content, capture_output=True, timeout=seconds)
        outcome = json.loads(ended.stdout)
    except subprocess.TimeoutExpired:
        raise DataError(
            f"{stopped} took more than {seconds:g} seconds; allow more in the environment variable "
            f"{SECONDS} if you trust it"
        ) from None
    except OSError as error:
        raise DataError(f"{file.path} cannot be tried in a process of its own: {error}") from None
    except ValueError:
        raise DataError(f"{stopped} crashed, with exit code {ended.returncode}") from None
    if outcome.get("memory"):
        raise DataError(
            f"{stopped} needs more than {gigabytes:.3g} GB of memory; allow more in the "
            f"environment variable {GIGABYTES} if you trust it"
        )
    # A model may call its batch free and take one sample only: then the first one has passed.
    if "error" in outcome and not outcome["passed"]:
        what = "computed" if outcome["loaded"] else "loaded"
        raise DataError(f"{file.path} cannot be {what}: {_first_line(outcome['error'])}")
    _keep_record(file.digest)


def _keep_record(digest: str) -> None:
    with contextlib.suppress(OSError, RuntimeError):
        write_text(_record(digest), "This ONNX file has run within the limits.\n")


def _record(digest: str) -> Path:
    folder = os.environ.get(RECORDS)
    return (Path(folder) if folder else cache_folder() / "onnx") / digest


def _limit_of(name: str, usual: float) -> float:
    text = os.environ.get(name, "")
    try:
        value = float(text) if text else usual
    except ValueError:
        value = math.nan
    if not 0 < value <= 1_000_000:
        raise OptionError(
            f"the environment variable {name} is {text!r}, expected a number above 0 and at most "
            "1,000,000"
        )
    return value


def _first_line(error: object) -> str:
    """What ONNX Runtime says, in one line without its codes, and not all of a long one."""
    text = str(error).strip()
    if (failed := re.search(r"while running (\w+) node", text)) is not None:
        return f"its operator {failed[1]} fails"
    first = text.splitlines()[0] if text else "it gives no reason"
    short = first.rsplit(" : ", 1)[-1].strip() or first
    return "".join(letter if letter.isprintable() else "?" for letter in short[:200])


# A network from elsewhere, with what must be known about it written into its file


@dataclass(frozen=True)
class OnnxExport:
    """An ONNX file that says itself how it takes images.

    Fields:
        file: where it lies. bytes: its size.
        digest: of the model, as `Recognizer` gives it for what the file was made of.
        calibrated: whether thresholds are in it.
    """

    file: Path
    bytes: int
    digest: str
    calibrated: bool

    def __str__(self) -> str:
        has = "with" if self.calibrated else "without"
        return f"{self.file}: {self.bytes / 1e6:.1f} MB, {has} thresholds"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return {**vars(self), "file": str(self.file)}


@dataclass(frozen=True)
class Adopted(OnnxExport):
    """A network from elsewhere in such a file. dim: the length of an embedding."""

    dim: int

    def __str__(self) -> str:
        return super().__str__().replace(" MB,", f" MB, {self.dim}-D,")


@contextlib.contextmanager
def replacing_model(out: Path, model: onnx.ModelProto) -> Iterator[tuple[Path, int]]:
    """Write a model that has just run in this process to `out`, once the block has tried the file.

    Yields a temporary path where it lies, and how many bytes it has.
    """
    with replacing(out) as part:
        content = model.SerializeToString()
        part.write_bytes(content)
        _keep_record(hashlib.sha256(content).hexdigest())
        yield part, len(content)


def adopt(
    path: Path | str,
    out: Path | str,
    *,
    thresholds: Thresholds | Path | str | None = None,
    name: str | None = None,
    **options: Any,
) -> Adopted:
    """Write an ONNX file anew, with how it takes images, its name and thresholds in it.

    options: preset, mean, std, size, channels, fit, invert, layout and output, as
        `Recognizer.from_onnx` takes them; thresholds and name as well.

    Afterwards `Recognizer.load(out)` and every verb with a --model need no further word. Raises
    what `from_onnx` raises, and `DataError` for weights that are kept in other files.
    """
    path, out = Path(path), Path(out)
    check_out(out)
    file = read_joined(path)
    given = open_onnx(path, options, "cpu")
    model = onnx.load_model_from_string(file.content)
    Label.of(
        name or given.name,
        given.pixels,
        digest=given.digest,
        shape=given.shape,
        layout=None if given.input.layout == "NF" else given.input.layout,
        output=given.output,
        thresholds=read_thresholds(thresholds) or given.thresholds,
        faces=given.takes_faces,
        published=given.published,
    ).write(model)
    with replacing_model(out, model) as (part, size):
        written = open_onnx(part, {}, "cpu")  # or nothing is written
    return Adopted(out, size, written.digest, written.thresholds is not None, written.dim)


def read_joined(path: Path) -> OnnxFile:
    """As `read_onnx`; raises `DataError` for weights that are kept in other files, too."""
    file = read_onnx(path)
    if file.external:
        raise DataError(
            f"{path} keeps weights in other files: join them first, with onnx.load and onnx.save"
        )
    return file


def check_out(out: Path) -> None:
    """Raise `OptionError` for what is no name of an ONNX file to write."""
    if out.suffix.lower() != ".onnx" or out.is_dir():
        raise OptionError(f"{out} is no name for an ONNX file: write FILE.onnx")
