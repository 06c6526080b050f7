"""An ONNX file as something that embeds arrays, computed by ONNX Runtime.

`open_onnx` makes an `OnnxModel`: of a file that arcset wrote, by its label; of another one, by what
the caller says about its images. `adopt` writes what was said into such a file. Before a graph runs
in this process it has run in another one: see `onnx_trial`.
"""

import hashlib
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from arcset.checks import check_choice
from arcset.data import Reading
from arcset.errors import DataError, InputError, OptionError
from arcset.evaluation.calibration import Thresholds
from arcset.files import replacing
from arcset.recognition.onnx_file import Label, OnnxFile, read_onnx
from arcset.recognition.onnx_trial import first_line, remember, run_apart
from arcset.recognition.presets import FACE_PRESETS, Pixels, preset_names, values_for

__all__ = ["Adopted", "OnnxModel", "adopt", "check_out", "open_onnx"]

_TYPES: dict[int, type[Any]] = {
    onnx.TensorProto.UINT8: np.uint8,
    onnx.TensorProto.FLOAT: np.float32,
    onnx.TensorProto.FLOAT16: np.float16,
    onnx.TensorProto.DOUBLE: np.float64,
}
_TYPE_NAMES = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}
_LAYOUTS = ("NCHW", "NHWC")
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
        return _labelled(file, label, device)
    pixels = dict(options)
    layout, output, size, preset = (
        pixels.pop(key, None) for key in ("layout", "output", "size", "preset")
    )
    return OnnxModel(
        file,
        values_for(preset, **pixels),
        size=(size, size) if isinstance(size, int) else size,
        layout=layout,
        output=output,
        device=device,
        takes_faces=preset in FACE_PRESETS,
    )


def _labelled(file: OnnxFile, label: Label, device: str) -> "OnnxModel":
    """A model with what its own label says, which must fit the graph."""
    misfit = f"{file.path} has metadata that does not fit its graph:"
    _providers_for(device)  # or it is refused as an option, and not as metadata
    try:
        model = OnnxModel(
            file,
            label.pixels,
            size=label.shape[1:] if len(label.shape) == 3 else None,
            layout=label.layout,
            output=label.output,
            device=device,
            digest=label.digest,
            takes_faces=label.takes_faces,
        )
    except OptionError as error:
        raise DataError(f"{misfit} {str(error).removeprefix(f'{file.path} ')}") from None
    if model.shape != label.shape:
        raise DataError(f"{misfit} it takes {model.shape}, and arcset.shape is {label.shape}")
    model.name, model.thresholds = label.name, label.thresholds
    dimension = model.dim if label.thresholds is None else label.thresholds.made_from["dimension"]
    if dimension != model.dim:
        raise DataError(
            f"{misfit} it embeds in {model.dim} dimensions, and its thresholds are for {dimension}"
        )
    return model


class OnnxModel:
    """The graph of an ONNX file.

    Parameters:
        pixels: what becomes of images of 0 … 255 before the graph gets them; None for graphs that
            take features, which are left as they are.
        size: height and width, if the graph leaves them open.
        layout: where the channels are, "NCHW" or "NHWC", if the graph leaves it open.
        output: the name of the embedding, if the graph has several outputs.
        digest: where the file's own is known; else one is made of graph, weights and pixels.
        takes_faces: whether its images are to be aligned faces.

    Attributes:
        name: the file's, or the one in its label. thresholds: those in its label.
        shape: of one sample, (C, H, W) or (F,). dim: the length of an embedding.
        reading: how images are read; None for models of vectors.

    No operator but ONNX's and ONNX Runtime's own is known to it, and no library is loaded.
    Raises `DataError` where ONNX Runtime refuses the graph or it gives no embedding, `OptionError`
    where something must be said about it.
    """

    def __init__(
        self,
        file: OnnxFile,
        pixels: Pixels | None,
        *,
        size: tuple[int, ...] | None = None,
        layout: str | None = None,
        output: str | None = None,
        device: str = "auto",
        digest: str | None = None,
        takes_faces: bool = False,
    ) -> None:
        self._path, self.name, self.takes_faces = file.path, file.path.stem, takes_faces
        self.thresholds: Thresholds | None = None
        self.input = _graph_input(file, layout)
        self.pixels = None if pixels is None else self._check_pixels(pixels)
        self.shape = self._shape(size)
        self.output = _choose_output(file, output)
        providers = _providers_for(device)
        run_apart(
            file,
            name=self.input.name,
            dtype=self.input.dtype.__name__,
            shape=_channels_last(self.shape) if self.input.layout == "NHWC" else self.shape,
            batches=(1, 2) if self.input.batch is None else (self.input.batch,),
            output=self.output,
        )
        self._session = _session(file, providers)
        self.dim = self._measure_dim()
        self.digest = digest or self._make_digest(file.graph)

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
            raise DataError(f"{self._path} cannot be computed: {first_line(error)}") from None
        if not isinstance(rows, np.ndarray) or rows.dtype.kind != "f" or rows.ndim < 2:
            raise DataError(f"{self._path} gives no embedding: its output is no matrix of floats")
        if len(rows) != len(batch):
            raise DataError(
                f"{self._path} gives an array of {rows.shape} for {len(batch)} images, and a "
                "recognizer needs one embedding per image"
            )
        return rows.reshape(len(batch), -1).astype(np.float32, copy=False)

    def _check_pixels(self, pixels: Pixels) -> Pixels | None:
        """What was said about pixels, which must fit what the graph takes."""
        if self.input.layout == "NF":
            return None
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
        values = {len(each) for each in (pixels.mean, pixels.std) if each is not None}
        if self.input.shape[0] == 1 and 3 in values:
            raise OptionError(f"{self._path} takes grey images: give one mean and one std")
        if self.input.shape[0] == 1 and pixels.channels == "BGR":
            raise OptionError(f"{self._path} takes grey images, which are not BGR")
        return pixels

    def _shape(self, size: tuple[int, ...] | None) -> tuple[int, ...]:
        """(C, H, W) or (F,), with the size that was said where the graph leaves it open."""
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

    Fields:
        name: the graph's word for it.
        dtype: uint8, float16, float32 or float64.
        batch: how many samples at a time; None for any number.
        layout: "NCHW" or "NHWC" of images, "NF" of vectors.
        shape: (C, H, W) of images, (F,) of vectors; 0 where the graph leaves it open.
    """

    name: str
    dtype: type[Any]
    batch: int | None
    layout: str
    shape: tuple[int, ...]


def _graph_input(file: OnnxFile, layout: str | None) -> _GraphInput:
    """What a graph takes; `layout` where it leaves that open."""
    if layout is not None:
        check_choice("layout", layout, _LAYOUTS)
    if len(file.inputs) != 1:
        names = ", ".join(repr(each.name) for each in file.inputs[:5])
        raise DataError(
            f"{file.path} takes {len(file.inputs)} inputs ({names}), and a recognizer needs a "
            "network that takes images and nothing else"
        )
    name, tensor = file.inputs[0].name, file.inputs[0].type.tensor_type
    dtype = _TYPES.get(tensor.elem_type)
    if dtype is None:
        kind = _TYPE_NAMES.get(tensor.elem_type, "unknown")
        raise DataError(f"{file.path} takes numbers of type {kind}, and images are uint8 or floats")
    sides = [max(0, side.dim_value) for side in tensor.shape.dim]
    if len(sides) == 2 and sides[1]:
        return _GraphInput(name, dtype, sides[0] or None, "NF", (sides[1],))
    if len(sides) != 4:
        raise DataError(
            f"{file.path} takes an array of shape {tuple(sides)} (0: left open), and images come "
            "as (N, C, H, W) or (N, H, W, C), vectors as (N, F)"
        )
    layout = layout or _layout(file.path, sides)
    batch, *inner = sides
    channels, height, width = inner if layout == "NCHW" else (inner[2], inner[0], inner[1])
    if channels not in (0, 1, 3):
        raise DataError(
            f"{file.path} takes images of {channels} channels as {layout}, and images have 1 or 3"
        )
    return _GraphInput(name, dtype, batch or None, layout, (channels or 3, height, width))


def _layout(path: Path, sides: list[int]) -> str:
    first, last = sides[1] in (1, 3), sides[3] in (1, 3)
    if first != last:
        return "NCHW" if first else "NHWC"
    raise OptionError(
        f"{path} does not say where its channels are, in {tuple(sides)} (0: left open): give "
        "layout='NCHW' or layout='NHWC'"
    )


def _choose_output(file: OnnxFile, output: str | None) -> str:
    if not file.outputs:
        raise DataError(f"{file.path} has no output")
    if output is None and len(file.outputs) == 1:
        return file.outputs[0]
    if output is not None and output in file.outputs:
        return output
    listed = ", ".join(repr(name) for name in file.outputs[:8])
    if output is None:
        raise OptionError(f"{file.path} has several outputs: give output, one of {listed}")
    raise OptionError(f"{file.path} has no output called {output!r}; it has {listed}")


def _channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    return (*shape[1:], shape[0]) if len(shape) == 3 else tuple(shape)


# ONNX Runtime


def _session(file: OnnxFile, providers: list[str]) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised as well, and said there
    options.intra_op_num_threads = _thread_count()
    if file.external:
        folder = str(file.path.parent.resolve())
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", folder
        )
    try:
        # From the bytes that were looked through, and not from a file that may have changed.
        return onnxruntime.InferenceSession(file.content, options, providers=providers)
    except Exception as error:  # the classes are not public
        raise DataError(f"{file.path} cannot be loaded: {first_line(error)}") from None


def _thread_count() -> int:
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


# A network from elsewhere, with what must be known about it written into its file


@dataclass(frozen=True)
class Adopted:
    """An ONNX file that says itself how it takes images.

    Fields:
        file: where it lies. bytes: its size.
        digest: of the model, as `Recognizer.from_onnx` gives it for the file as it was.
        dim: the length of an embedding.
        calibrated: whether thresholds are in it.
    """

    file: Path
    bytes: int
    digest: str
    dim: int
    calibrated: bool

    def __str__(self) -> str:
        kept = "with" if self.calibrated else "without"
        return f"{self.file}: {self.bytes / 1e6:.1f} MB, {self.dim}-D, {kept} thresholds"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return {**vars(self), "file": str(self.file)}


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
    if isinstance(thresholds, str | Path):
        thresholds = Thresholds.load(thresholds)
    file = read_onnx(path)
    if file.external:
        raise DataError(
            f"{path} keeps weights in other files: join them first, with onnx.load and onnx.save"
        )
    given = open_onnx(path, options, "cpu")
    model = onnx.load_model_from_string(file.content)
    Label(
        name=name or given.name,
        digest=given.digest,
        shape=given.shape,
        pixels=None if given.pixels is None else replace(given.pixels, size=None),
        layout=None if given.input.layout == "NF" else given.input.layout,
        output=given.output,
        thresholds=thresholds or given.thresholds,
        takes_faces=given.takes_faces,
    ).write(model)
    with replacing(out) as part:
        content = model.SerializeToString()
        part.write_bytes(content)
        remember(content)  # its graph has just run
        written = open_onnx(part, {}, "cpu")  # or nothing is written
    calibrated = written.thresholds is not None
    return Adopted(out, len(content), written.digest, written.dim, calibrated)


def check_out(out: Path) -> None:
    """Raise `OptionError` for what is no name of an ONNX file to write."""
    if out.suffix.lower() != ".onnx" or out.is_dir():
        raise OptionError(f"{out} is no name for an ONNX file: write FILE.onnx")
