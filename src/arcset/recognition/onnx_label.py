"""What arcset writes into an ONNX file, so that it needs no further word to be used."""

import json
from dataclasses import dataclass
from typing import Any

import onnx

from arcset.errors import ArcsetError, DataError
from arcset.evaluation.calibration import Thresholds
from arcset.recognition.onnx_file import OnnxFile, graph_digest
from arcset.recognition.presets import Pixels

__all__ = ["FORMAT", "Label"]

FORMAT = 1
_PREFIX = "arcset."


@dataclass(frozen=True)
class Label:
    """A model's name, digest and thresholds, and how images become its input.

    Kept in the file's `metadata_props`: arcset.format, arcset.name, arcset.digest, arcset.graph
    (SHA-256 of the graph, by which a file that somebody changed is found), arcset.shape (C, H, W),
    arcset.fit, arcset.invert, arcset.pixels (mean, std, channels; null for features),
    arcset.layout, arcset.output and arcset.thresholds; all but name and digests as JSON.
    """

    name: str
    digest: str
    shape: tuple[int, ...]
    pixels: Pixels | None
    layout: str | None = None
    output: str | None = None
    thresholds: Thresholds | None = None

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
        texts = {key: json.dumps(value, allow_nan=False) for key, value in content.items()}
        texts |= {"name": self.name, "digest": self.digest, "graph": graph_digest(model)}
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
        """From a file; None where there is none.

        Raises `DataError` where it is of another format, damaged, or not that of the graph.
        """
        texts = {
            key.removeprefix(_PREFIX): value
            for key, value in file.metadata.items()
            if key.startswith(_PREFIX)
        }
        if not texts:
            return None
        try:
            if json.loads(texts["format"]) != FORMAT:
                raise DataError(
                    f"{file.path} is of format {texts['format']}, and this arcset reads {FORMAT}"
                )
            if texts["graph"] != file.graph:
                raise DataError(
                    f"{file.path} was changed since arcset made it: export the model again"
                )
            return _parsed(texts, str(file.path))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, ArcsetError):
                raise
            raise DataError(f"{file.path} has a damaged label: {error!r}") from None


def _parsed(texts: dict[str, str], source: str) -> Label:
    content = {key: json.loads(texts[key]) for key in texts.keys() - {"name", "digest", "graph"}}
    values = content["pixels"]
    kept = content.get("thresholds")
    if len(texts["digest"]) != 64 or not set(texts["digest"]) <= set("0123456789abcdef"):
        raise ValueError("the digest is none")
    return Label(
        name=texts["name"],
        digest=texts["digest"],
        shape=tuple(int(side) for side in content["shape"]),
        pixels=None if values is None else _pixels(content, **values),
        layout=content["layout"],
        output=content["output"],
        thresholds=None if kept is None else Thresholds.from_json(kept, source),
    )


def _pixels(content: dict[str, Any], mean: Any, std: Any, channels: str) -> Pixels:
    return Pixels(
        mean=None if mean is None else tuple(map(float, mean)),
        std=None if std is None else tuple(map(float, std)),
        channels=channels,
        fit=content["fit"],
        invert=bool(content["invert"]),
    )
