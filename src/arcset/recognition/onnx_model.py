"""An ONNX file as something that embeds arrays, computed by ONNX Runtime."""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch

from arcset.errors import DataError, InputError, OptionError
from arcset.recognition.onnx_file import OnnxFile
from arcset.recognition.onnx_input import graph_input
from arcset.recognition.onnx_trial import first_line, run_apart
from arcset.recognition.presets import Pixels, preset_names

__all__ = ["OnnxModel", "providers_for"]

# Most samples, and most pixels, per call: of more, ONNX Runtime's layers fall out of the cache.
_SAMPLES, _PIXELS = 64, 2**16


class OnnxModel:
    """The graph of an ONNX file.

    pixels: what becomes of images of 0 … 255 before the graph gets them; None for graphs that take
        features, which are left as they are.
    size: height and width, if the graph leaves them open.
    layout: where the channels are, "NCHW" or "NHWC", if the graph leaves it open.
    output: the name of the embedding, if the graph has several outputs.
    digest: where the file's own is known; else one is made of graph, weights and pixels.
    takes_faces: whether its images are to be aligned faces.

    No operator but ONNX's and ONNX Runtime's own is known to it, and no library is loaded.
    Raises `DataError` where ONNX Runtime refuses the graph or it gives no embedding, `OptionError`
    where something must be said about it.
    """

    def __init__(
        self,
        file: OnnxFile,
        pixels: Pixels | None,
        *,
        size: tuple[int, int] | None = None,
        layout: str | None = None,
        output: str | None = None,
        device: str = "auto",
        digest: str | None = None,
        takes_faces: bool = False,
    ) -> None:
        self._path, self.takes_faces = file.path, takes_faces
        self.input = graph_input(file.path, file.inputs, layout)
        self.pixels = None if pixels is None else self._checked(pixels)
        self.shape = self._shape(size)
        self.output = self._chosen(file.outputs, output)
        providers = providers_for(device)
        run_apart(file, self.input, self.shape, self.output)
        self._session = _session(file, providers)
        self.dim = self._try()
        self.digest = digest or self._own_digest(file.graph)

    def run(self, samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Samples as a dataset has them, (N, H, W[, C]) or (N, F), to (N, D), of any length."""
        prepared = self._prepared(samples)
        size = self.input.batch or max(1, min(_SAMPLES, _PIXELS // math.prod(self.shape[-2:])))
        parts = []
        for start in range(0, len(prepared), size):
            part = prepared[start : start + size]
            missing = (self.input.batch or len(part)) - len(part)
            if missing:  # a graph for exactly so many gets the last one again
                part = np.concatenate([part, np.repeat(part[-1:], missing, axis=0)])
            parts.append(self._call(part)[: len(part) - missing])
        return np.concatenate(parts)

    def _prepared(self, samples: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """As the graph takes them, each in memory of its own."""
        takes = self.input
        if takes.layout == "NF":
            return np.ascontiguousarray(samples, dtype=takes.dtype)
        images = samples[..., None] if samples.ndim == 3 else samples  # (N, H, W, C)
        if (images.dtype == np.uint8) != (self.pixels is not None):
            wanted = "floats, which are features" if self.pixels is None else "uint8 images"
            raise InputError(f"{self._path} takes {wanted}, and these are {images.dtype}")
        if self.pixels is not None:
            images = self.pixels.apply(images)
        if takes.layout == "NCHW":
            images = images.transpose(0, 3, 1, 2)
        return np.ascontiguousarray(images, dtype=takes.dtype)

    def _call(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        try:
            (found,) = self._session.run([self.output], {self.input.name: batch})
        except Exception as error:  # each operator raises what it likes
            raise DataError(f"{self._path} cannot be computed: {first_line(str(error))}") from None
        if not isinstance(found, np.ndarray) or found.dtype.kind != "f" or found.ndim < 2:
            raise DataError(f"{self._path} gives no embedding: its output is no matrix of floats")
        if len(found) != len(batch):
            raise DataError(
                f"{self._path} gives an array of {found.shape} for {len(batch)} images, and a "
                "recognizer needs one embedding per image"
            )
        return found.reshape(len(batch), -1).astype(np.float32, copy=False)

    def _checked(self, pixels: Pixels) -> Pixels | None:
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

    def _shape(self, size: tuple[int, int] | None) -> tuple[int, ...]:
        """(C, H, W) or (F,), with the size that was said where the graph leaves it open."""
        if self.input.layout == "NF":
            return self.input.shape
        channels, *sides = self.input.shape
        if size is None and 0 in sides:
            size = None if self.pixels is None else self.pixels.size
        if size is None and 0 in sides:
            raise OptionError(f"{self._path} does not say which size of images it takes: give size")
        wanted = sides if size is None else list(size)
        fits = [side in (0, want) for side, want in zip(sides, wanted, strict=False)]
        if len(wanted) != 2 or not all(fits):
            shown = "×".join(str(side or "any") for side in sides)
            raise OptionError(f"{self._path} takes images of {shown} pixels, and size={size!r}")
        return (channels, *wanted)

    def _chosen(self, names: Sequence[str], output: str | None) -> str:
        if not names:
            raise DataError(f"{self._path} has no output")
        if output is None and len(names) == 1:
            return names[0]
        if output is not None and output in names:
            return output
        listed = ", ".join(repr(name) for name in names[:8])
        if output is None:
            raise OptionError(f"{self._path} has several outputs: give output, one of {listed}")
        raise OptionError(f"{self._path} has no output called {output!r}; it has {listed}")

    def _try(self) -> int:
        """The length of an embedding, found by making one."""
        channels_last = (*self.shape[1:], self.shape[0]) if len(self.shape) == 3 else self.shape
        dtype = np.float32 if self.pixels is None else np.uint8
        dim = self.run(np.ones((1, *channels_last), dtype)).shape[1]
        if dim < 2:
            raise DataError(f"{self._path} gives one number per image, and no embedding")
        return int(dim)

    def _own_digest(self, graph: str) -> str:
        said = {
            "graph": graph,
            "output": self.output,
            "layout": self.input.layout,
            "shape": list(self.shape),
            "pixels": None if self.pixels is None else asdict(replace(self.pixels, size=None)),
        }
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _session(file: OnnxFile, providers: list[str]) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised as well, and said there
    options.intra_op_num_threads = torch.get_num_threads()
    if file.external:
        folder = str(file.path.parent.resolve())
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", folder
        )
    try:
        # From the bytes that were looked through, and not from a file that may have changed.
        return onnxruntime.InferenceSession(file.content, options, providers=providers)
    except Exception as error:  # the classes are not public
        raise DataError(f"{file.path} cannot be loaded: {first_line(str(error))}") from None


def providers_for(device: str) -> list[str]:
    """What ONNX Runtime computes with; raises `OptionError` for a device that is not there."""
    available = onnxruntime.get_available_providers()
    cuda, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
    if device == "cpu" or (device == "auto" and cuda not in available):
        return [cpu]
    if device in ("auto", "cuda") and cuda in available:
        return [cuda, cpu]
    usable = "auto, cpu or cuda" if cuda in available else "auto or cpu"
    raise OptionError(f"device {device!r} is not available here for ONNX files; use {usable}")
