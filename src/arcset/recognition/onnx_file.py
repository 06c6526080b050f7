"""An ONNX file as data: read, looked through, and refused where it wants more than to compute.

`Label` is what arcset writes into such a file, so that it needs no further word to be used.
"""

import hashlib
import json
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import onnx
from google.protobuf.message import DecodeError, EncodeError
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    StringConstraints,
    ValidationError,
)

from arcset.data.image import Fit
from arcset.errors import ArcsetError, DataError
from arcset.evaluation.calibration import Thresholds
from arcset.files import one_line
from arcset.recognition.presets import Pixels

__all__ = ["Label", "OnnxFile", "graph_digest", "read_onnx"]

MOST_BYTES = (1 << 31) - 1  # that a protocol buffer can hold
# Operators of the standard, and those that ONNX Runtime brings along.
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")


@dataclass(frozen=True, eq=False)
class OnnxFile:
    """An ONNX file, and what was found in it.

    Fields:
        path: where it lies; weights kept apart lie in the same folder.
        content: its bytes.
        metadata: what its maker wrote into it, by name.
        graph: SHA-256 over graph, functions, operator versions and weights, in hexadecimal.
        external: whether weights are kept in other files.
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


def read_onnx(path: Path | str) -> OnnxFile:
    """Read and look through an ONNX file; nothing in it is run.

    Raises `DataError` for a file that is missing, damaged, larger than 2 GiB or no ONNX model, one
    with other operators than those of the standard and of ONNX Runtime, and one whose weights lie
    outside of its folder.
    """
    path = Path(path)
    content = _content(path)
    try:
        model = onnx.load_model_from_string(content)
    except (DecodeError, UnicodeDecodeError, ValueError, RuntimeError):
        model = onnx.ModelProto()
    # Of other files the parser takes some for a model with nothing in it that it knows.
    if not (model.ir_version and len(model.graph.node) and len(model.opset_import)):
        raise DataError(f"{path} is no ONNX model, or is damaged")
    _check_operators(path, model)
    outside = sorted({_external(path, each) for each in _tensors(model) if each.data_location})
    digest = hashlib.sha256(content)
    for file in outside:
        digest.update(_file_digest(file))
    # Weights may be listed among the inputs, as values that could be replaced.
    given = {each.name for each in model.graph.initializer}
    given |= {each.values.name for each in model.graph.sparse_initializer}
    return OnnxFile(
        path,
        content,
        metadata={each.key: each.value for each in model.metadata_props},
        graph=graph_digest(model, outside, path=path),
        external=bool(outside),
        digest=digest.hexdigest(),
        size=len(content) + sum(file.stat().st_size for file in outside),
        inputs=tuple(each for each in model.graph.input if each.name not in given),
        outputs=tuple(each.name for each in model.graph.output),
    )


def graph_digest(
    model: onnx.ModelProto, outside: Iterable[Path] = (), *, path: object = "the model"
) -> str:
    """SHA-256 over all of a model that decides what it computes; not over names, dates and notes.

    outside: the files that weights are kept in. path: what messages call the model.
    """
    digest = hashlib.sha256()
    parts: list[Any] = [*model.opset_import, *model.functions, model.graph]
    for part in parts:
        try:
            digest.update(part.SerializeToString(deterministic=True))
        except (EncodeError, ValueError) as error:
            raise DataError(f"{path} is damaged: {one_line(error)}") from None
    for file in sorted(outside):
        digest.update(_file_digest(file))
    return digest.hexdigest()


def _content(path: Path) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for without end
            raise DataError(f"{path} is no file")
        if status.st_size > MOST_BYTES:
            raise DataError(
                f"{path} holds {status.st_size:,} bytes, and an ONNX file has at most "
                f"{MOST_BYTES:,}: keep its weights in a file beside it"
            )
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        why = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read: {why}") from None


def _file_digest(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").digest()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}") from None


def _check_operators(path: Path, model: onnx.ModelProto) -> None:
    functions = {(function.domain, function.name) for function in model.functions}
    for node in _nodes(model):
        if node.domain not in DOMAINS and (node.domain, node.op_type) not in functions:
            raise DataError(
                f"{path} needs the operator {f'{node.domain}::{node.op_type}'!r}, which is neither "
                "ONNX's nor ONNX Runtime's: models with operators of their own are not run"
            )


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Every node, also those within branches, loops and functions."""
    waiting: list[Any] = [model.graph, *model.functions]
    while waiting:
        for node in waiting.pop().node:
            yield node
            for attribute in node.attribute:
                waiting += [attribute.g, *attribute.graphs]


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every constant: weights, and values within nodes."""
    graphs: list[Any] = [model.graph]
    sparse: list[onnx.SparseTensorProto] = []
    for node in _nodes(model):
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            sparse += [attribute.sparse_tensor, *attribute.sparse_tensors]
            graphs += [attribute.g, *attribute.graphs]
    for graph in graphs:
        yield from graph.initializer
        sparse += graph.sparse_initializer
    for each in sparse:
        yield from (each.values, each.indices)


def _external(path: Path, tensor: onnx.TensorProto) -> Path:
    """The file that a tensor is kept in, which must lie in the model's folder."""
    location = {each.key: each.value for each in tensor.external_data}.get("location", "")
    folder = path.parent.resolve()
    try:
        file: Path = (folder / location).resolve()
        if not location or not file.is_relative_to(folder):
            raise DataError(
                f"{path} keeps weights in {location!r}, outside of its own folder: nothing is "
                "read from there"
            )
        if not file.is_file():
            raise DataError(f"{path} keeps weights in {location!r}, and there is no such file")
    except (OSError, ValueError, RuntimeError) as error:  # zero bytes, links in a circle
        raise DataError(
            f"{path} keeps weights in {location!r}, which cannot be read: {error}"
        ) from None
    return file


# What arcset writes into a file

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
            content["pixels"] = {key: getattr(pixels, key) for key in _Scale.model_fields}
        if self.thresholds is not None:
            content["thresholds"] = self.thresholds.json()
        if self.takes_faces:
            content["faces"] = True
        texts = {key: json.dumps(value, allow_nan=False) for key, value in content.items()}
        name = "".join(letter if letter.isprintable() else "?" for letter in self.name)
        texts["name"] = name[:_LONGEST_NAME] or "model"
        texts |= {"digest": self.digest, "graph": graph_digest(model)}
        props = {each.key: each.value for each in model.metadata_props}
        others = {key: text for key, text in props.items() if not key.startswith(_PREFIX)}
        written = {_PREFIX + key: text for key, text in texts.items()}
        onnx.helper.set_model_props(model, others | written)

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
            entries = _Entries.model_validate(texts)
        except ValidationError as error:
            key = str(error.errors()[0]["loc"][0])
            value = f"{texts[key]!r:.60}" if key in texts else "missing"
            raise DataError(
                f"{file.path} has damaged metadata: {_PREFIX}{key} is {value}"
            ) from None
        return cls(
            name=entries.name,
            digest=entries.digest,
            shape=entries.shape,
            pixels=entries.as_pixels(file.path),
            layout=entries.layout,
            output=entries.output,
            thresholds=_thresholds(entries.thresholds, file.path),
            takes_faces=entries.faces or False,
        )


def _thresholds(content: dict[str, Any] | None, path: Path) -> Thresholds | None:
    try:
        return None if content is None else Thresholds.from_json(content, "it")
    except (ArcsetError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} has damaged metadata: {_PREFIX}thresholds: {one_line(error)}"
        ) from None


def _one_or_three(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(values) not in (1, 3):
        raise ValueError("expected one value or three")
    return values


def _is_printable(name: str) -> str:
    if not name.isprintable():
        raise ValueError("expected letters that can be shown")
    return name


_Side = Annotated[int, Field(ge=1, lt=1 << 31)]
_Mean = Annotated[float, Field(gt=-1e30, lt=1e30)]
_Std = Annotated[float, Field(gt=0, lt=1e30)]


class _Scale(BaseModel):
    """Entry `pixels`: what becomes of pixels of 0 … 255 before the graph gets them."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")

    mean: Annotated[tuple[_Mean, ...], AfterValidator(_one_or_three)] | None
    std: Annotated[tuple[_Std, ...], AfterValidator(_one_or_three)] | None
    channels: Literal["RGB", "BGR"]


class _Entries(BaseModel):
    """The entries of a label as they are in a file: texts, most of them in JSON."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    name: Annotated[
        str,
        StringConstraints(min_length=1, max_length=_LONGEST_NAME),
        AfterValidator(_is_printable),
    ]
    digest: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    shape: Json[Annotated[tuple[_Side, ...], AfterValidator(_one_or_three)]]
    pixels: Json[_Scale | None]
    layout: Json[Literal["NCHW", "NHWC"] | None]
    output: Json[str | None]
    fit: Json[Fit | None] | None = None
    invert: Json[bool | None] | None = None
    thresholds: Json[dict[str, Any] | None] | None = None
    faces: Json[bool | None] | None = None

    def as_pixels(self, path: Path) -> Pixels | None:
        scale = self.pixels
        if scale is None:
            return None
        if self.fit is None or self.invert is None or (scale.mean is None) != (scale.std is None):
            raise DataError(f"{path} has damaged metadata: arcset.pixels are not whole")
        return Pixels(scale.mean, scale.std, scale.channels, fit=self.fit, invert=self.invert)
