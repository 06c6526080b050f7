"""What arcset writes into an ONNX file, so that it needs no further word to be used."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from arcset.data.image import FITS
from arcset.errors import ArcsetError, DataError
from arcset.evaluation.calibration import Thresholds
from arcset.recognition.onnx_file import OnnxFile, graph_digest
from arcset.recognition.onnx_input import LAYOUTS
from arcset.recognition.presets import Pixels

__all__ = ["FORMAT", "Label"]

FORMAT = 1
_PREFIX = "arcset."
_LONGEST_NAME = 255


@dataclass(frozen=True)
class Label:
    """A model's name, digest and thresholds, and how images become its input.

    Kept in the file's `metadata_props`: arcset.format, arcset.name, arcset.digest, arcset.graph
    (SHA-256 of the graph, by which a file that somebody changed is found), arcset.shape (C, H, W),
    arcset.fit, arcset.invert, arcset.pixels (mean, std, channels; null for features),
    arcset.layout, arcset.output, arcset.thresholds and arcset.faces (true where the network takes
    aligned faces); all but name and digests as JSON.
    """

    name: str
    digest: str
    shape: tuple[int, ...]
    pixels: Pixels | None
    layout: str | None = None
    output: str | None = None
    thresholds: Thresholds | None = None
    takes_faces: bool = False

    def write(self, model: onnx.ModelProto) -> None:
        """Into a model, in place of an earlier one."""
        content: dict[str, Any] = {
            "format": FORMAT,
            "shape": list(self.shape),
            "pixels": None,
            "layout": self.layout,
            "output": self.output,
        }
        if self.pixels is not None:
            pixels = self.pixels
            content |= {"fit": pixels.fit, "invert": pixels.invert}
            content["pixels"] = {
                name: getattr(pixels, name) for name in ("mean", "std", "channels")
            }
        if self.thresholds is not None:
            content["thresholds"] = self.thresholds.json()
        if self.takes_faces:
            content["faces"] = True
        texts = {key: json.dumps(value, allow_nan=False) for key, value in content.items()}
        name = "".join(letter if letter.isprintable() else "?" for letter in self.name)
        texts |= {
            "name": name[:_LONGEST_NAME] or "model",
            "digest": self.digest,
            "graph": graph_digest(model),
        }
        others = {
            each.key: each.value
            for each in model.metadata_props
            if not each.key.startswith(_PREFIX)
        }
        onnx.helper.set_model_props(
            model, others | {_PREFIX + key: text for key, text in texts.items()}
        )

    @classmethod
    def read(cls, file: OnnxFile) -> "Label | None":
        """From a file; None where it has no metadata of arcset.

        Raises `DataError` where this is of another format, damaged, or not that of the graph.
        """
        texts = {
            key.removeprefix(_PREFIX): value
            for key, value in file.metadata.items()
            if key.startswith(_PREFIX)
        }
        if not texts:
            return None
        if (form := _parsed(texts, "format", file.path)) != FORMAT:
            raise DataError(
                f"{file.path} is of format {_short(form)}, and this arcset reads format {FORMAT}"
            )
        if texts.get("graph") != file.graph:
            raise DataError(f"{file.path} was changed since arcset made it: export the model again")
        content = {key: _parsed(texts, key, file.path) for key in _CHECKS}
        if content["pixels"] is not None and None in (content["fit"], content["invert"]):
            raise DataError(f"{file.path} has damaged metadata: {_PREFIX}fit or invert is missing")
        return cls(
            name=content["name"],
            digest=content["digest"],
            shape=tuple(content["shape"]),
            pixels=None if content["pixels"] is None else _pixels(content),
            layout=content["layout"],
            output=content["output"],
            thresholds=_thresholds(content["thresholds"], file.path),
            takes_faces=content["faces"] or False,
        )


def _parsed(texts: Mapping[str, str], key: str, path: Path) -> Any:
    """The value of an entry; raises `DataError` that names file and entry where it is damaged."""
    text = texts.get(key)
    try:
        bare = text is None or key in _TEXTS
        value = text if bare else json.loads(str(text), parse_constant=_refuse)
        fits = (text is not None or key in _OPTIONAL) and (
            key not in _CHECKS or _CHECKS[key](value)
        )
    except (ValueError, OverflowError, RecursionError):
        fits = False
    if not fits:
        said = "missing" if text is None else _short(text)
        raise DataError(f"{path} has damaged metadata: {_PREFIX}{key} is {said}")
    return value


def _refuse(name: str) -> None:
    raise ValueError(name)  # NaN and infinity, which JSON does not know


def _short(value: object) -> str:
    said = repr(value)
    return said if len(said) <= 60 else said[:59] + "…"


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _is_shape(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) in (1, 3)
        and all(type(side) is int and 1 <= side < 1 << 31 for side in value)
    )


def _is_pixels(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"mean", "std", "channels"}:
        return value is None
    mean, std = value["mean"], value["std"]
    scaled = mean is not None and std is not None
    return value["channels"] in ("RGB", "BGR") and (
        (_are_per_channel(mean) and _are_per_channel(std) and min(std) > 0)
        if scaled
        else mean is std
    )


def _are_per_channel(values: Any) -> bool:
    return (
        isinstance(values, list)
        and len(values) in (1, 3)
        and all(type(one) in (int, float) and abs(one) < 1e30 for one in values)
    )


_TEXTS = ("name", "digest")  # as they are, and not as JSON
_OPTIONAL = ("fit", "invert", "thresholds", "faces")
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "name": lambda value: bool(value) and value.isprintable() and len(value) <= _LONGEST_NAME,
    "digest": _is_digest,
    "shape": _is_shape,
    "pixels": _is_pixels,
    "fit": lambda value: value is None or (isinstance(value, str) and value in FITS),
    "invert": lambda value: value is None or isinstance(value, bool),
    "layout": lambda value: value is None or value in LAYOUTS,
    "output": lambda value: value is None or isinstance(value, str),
    "thresholds": lambda value: value is None or isinstance(value, dict),
    "faces": lambda value: value is None or isinstance(value, bool),
}


def _pixels(content: Mapping[str, Any]) -> Pixels:
    values = content["pixels"]
    mean, std = (
        None if values[name] is None else tuple(map(float, values[name]))
        for name in ("mean", "std")
    )
    return Pixels(mean, std, values["channels"], fit=content["fit"], invert=content["invert"])


def _thresholds(content: Any, path: Path) -> Thresholds | None:
    try:
        return None if content is None else Thresholds.from_json(content, "it")
    except (ArcsetError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        said = " ".join(str(error).split())
        raise DataError(f"{path} has damaged metadata: {_PREFIX}thresholds: {said}") from None
