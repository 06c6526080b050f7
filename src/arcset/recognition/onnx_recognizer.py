"""What a recognizer is made of, from an ONNX file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arcset.data import Reading
from arcset.errors import DataError, OptionError
from arcset.evaluation.calibration import Thresholds
from arcset.recognition.onnx_file import read_onnx
from arcset.recognition.onnx_label import Label
from arcset.recognition.onnx_model import OnnxModel
from arcset.recognition.presets import values_for

__all__ = ["OpenedOnnx", "open_onnx"]


@dataclass(frozen=True, eq=False)
class OpenedOnnx:
    """A model, and what its file says about it; `reading` is None for models of vectors."""

    name: str
    model: OnnxModel
    reading: Reading | None
    thresholds: Thresholds | None


def open_onnx(path: Path, said: Mapping[str, Any], device: str = "auto") -> OpenedOnnx:
    """An ONNX file of arcset's own, or another with what is `said` about its input.

    said: preset, mean, std, channels, size, fit, invert, layout and output, as far as given.
    """
    file = read_onnx(path)
    label = Label.read(file)
    if label is not None:
        if said:
            raise OptionError(
                f"{path} was made by arcset and says itself how it takes images: leave out "
                f"{', '.join(said)}"
            )
        model = OnnxModel(
            file,
            label.pixels,
            size=label.shape[1:] if len(label.shape) == 3 else None,
            layout=label.layout,
            output=label.output,
            device=device,
            digest=label.digest,
        )
        if model.shape != label.shape:
            raise DataError(f"{path} has a damaged label: it takes {model.shape}")
        return OpenedOnnx(label.name, model, _reading(model), label.thresholds)
    rest = dict(said)
    layout, output, size = (rest.pop(key, None) for key in ("layout", "output", "size"))
    model = OnnxModel(
        file,
        values_for(rest.pop("preset", None), **rest),
        size=(size, size) if isinstance(size, int) else size,
        layout=layout,
        output=output,
        device=device,
    )
    return OpenedOnnx(path.stem, model, _reading(model), None)


def _reading(model: OnnxModel) -> Reading | None:
    if model.pixels is None:
        return None
    channels, height, width = model.shape
    return Reading(channels, height, width, fit=model.pixels.fit, invert=model.pixels.invert)
