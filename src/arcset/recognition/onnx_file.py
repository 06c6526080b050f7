"""An ONNX file as data: read, looked through, and refused where it wants more than to compute."""

import hashlib
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError, EncodeError

from arcset.errors import DataError

__all__ = ["Argument", "OnnxFile", "graph_digest", "read_onnx"]

MOST_BYTES = (1 << 31) - 1  # that a protocol buffer can hold
# Operators of the standard, and those that ONNX Runtime brings along.
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")


@dataclass(frozen=True)
class Argument:
    """An input of a graph: its type as ONNX Runtime writes it, "tensor(float)", and its shape.

    A side that the graph leaves open is a name or None.
    """

    name: str
    type: str
    shape: tuple[int | str | None, ...]


@dataclass(frozen=True, eq=False)
class OnnxFile:
    """What `read_onnx` found.

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
    inputs: tuple[Argument, ...]
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
    outside = {_external(path, tensor) for tensor in _tensors(model) if tensor.data_location}
    whole = hashlib.sha256(content)
    for file in sorted(outside):
        whole.update(_file_digest(file))
    return OnnxFile(
        path,
        content,
        metadata={each.key: each.value for each in model.metadata_props},
        graph=graph_digest(model, outside, path=path),
        external=bool(outside),
        digest=whole.hexdigest(),
        size=len(content) + sum(file.stat().st_size for file in outside),
        inputs=_inputs(model.graph),
        outputs=tuple(each.name for each in model.graph.output),
    )


def graph_digest(
    model: onnx.ModelProto, outside: Iterable[Path] = (), *, path: object = "the model"
) -> str:
    """SHA-256 over all of a model that decides what it computes; not over names, dates and notes.

    outside: the files that weights are kept in. path: what messages call the model.
    """
    found = hashlib.sha256()
    parts: list[Any] = [*model.opset_import, *model.functions, model.graph]
    for part in parts:
        try:
            found.update(part.SerializeToString(deterministic=True))
        except (EncodeError, ValueError) as error:
            said = " ".join(str(error).split())
            raise DataError(f"{path} is damaged: {said}") from None
    for file in sorted(outside):
        found.update(_file_digest(file))
    return found.hexdigest()


def _file_digest(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").digest()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}") from None


def _inputs(graph: onnx.GraphProto) -> tuple[Argument, ...]:
    """Those without a value of their own."""
    given = {each.name for each in graph.initializer}
    given |= {each.values.name for each in graph.sparse_initializer}
    found = []
    for each in graph.input:
        if each.name not in given:
            tensor = each.type.tensor_type
            kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
            sides = tuple(side.dim_value or side.dim_param or None for side in tensor.shape.dim)
            found.append(Argument(each.name, f"tensor({kind})", sides))
    return tuple(found)


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


def _check_operators(path: Path, model: onnx.ModelProto) -> None:
    own = {(function.domain, function.name) for function in model.functions}
    for node in _nodes(model):
        if node.domain not in DOMAINS and (node.domain, node.op_type) not in own:
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
    said = {each.key: each.value for each in tensor.external_data}.get("location", "")
    folder = path.parent.resolve()
    try:
        file: Path = (folder / said).resolve()
        if not said or not file.is_relative_to(folder):
            raise DataError(
                f"{path} keeps weights in {said!r}, outside of its own folder: nothing is read "
                "from there"
            )
        if not file.is_file():
            raise DataError(f"{path} keeps weights in {said!r}, and there is no such file")
    except (OSError, ValueError, RuntimeError) as error:  # zero bytes, links in a circle
        raise DataError(
            f"{path} keeps weights in {said!r}, which cannot be read: {error}"
        ) from None
    return file
