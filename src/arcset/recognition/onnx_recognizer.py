"""What a recognizer is made of, from an ONNX file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arcset.data import Reading
from arcset.errors import DataError, OptionError
from arcset.evaluation.calibration import Thresholds
from arcset.recognition.onnx_file import OnnxFile, read_onnx
from arcset.recognition.onnx_label import Label
from arcset.recognition.onnx_model import OnnxModel, providers_for
from arcset.recognition.presets import FACE_PRESETS, values_for

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
        return _labelled(file, label, device)
    rest = dict(said)
    layout, output, size, preset = (
        rest.pop(key, None) for key in ("layout", "output", "size", "preset")
    )
    model = OnnxModel(
        file,
        values_for(preset, **rest),
        size=(size, size) if isinstance(size, int) else size,
        layout=layout,
        output=output,
        device=device,
        takes_faces=preset in FACE_PRESETS,
    )
    return OpenedOnnx(path.stem, model, _reading(model), None)


def _labelled(file: OnnxFile, label: Label, device: str) -> OpenedOnnx:
    """A model with what its own metadata says, which must fit the graph."""
    providers_for(device)  # or it is refused as an option, and not as metadata
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
        reading = _reading(model)
    except OptionError as error:
        said = str(error).removeprefix(f"{file.path} ")
        raise DataError(f"{file.path} has metadata that does not fit its graph: {said}") from None
    if model.shape != label.shape:
        raise DataError(
            f"{file.path} has metadata that does not fit its graph: it takes {model.shape}, and "
            f"arcset.shape is {label.shape}"
        )
    if label.thresholds is not None and label.thresholds.made_from["dimension"] != model.dim:
        raise DataError(
            f"{file.path} has metadata that does not fit its graph: it embeds in {model.dim} "
            f"dimensions, and its thresholds are for {label.thresholds.made_from['dimension']}"
        )
    return OpenedOnnx(label.name, model, reading, label.thresholds)


def _reading(model: OnnxModel) -> Reading | None:
    if model.pixels is None:
        return None
    channels, height, width = model.shape
    return Reading(channels, height, width, fit=model.pixels.fit, invert=model.pixels.invert)
