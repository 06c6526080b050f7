"""Small ONNX files, made by hand as other tools make them."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from arcset.recognition.onnx_model import adopt

__all__ = ["FLOAT", "UINT8", "adopt", "changed", "expected", "external", "linear", "weights"]

FLOAT, UINT8 = TensorProto.FLOAT, TensorProto.UINT8


def weights(count: int, dim: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)


def linear(
    path: Path,
    shape: tuple[int | str | None, ...] = ("N", 3, 6, 5),
    *,
    dtype: int = FLOAT,
    values: int = 90,
    dim: int = 4,
    nodes: tuple = (),
    inputs: tuple = (),
    outputs: tuple = (),
    opsets: tuple = (),
) -> np.ndarray:
    """Write a network that flattens its input and multiplies it by a matrix, which is returned.

    nodes, inputs, outputs, opsets: further ones.
    """
    matrix = weights(values, dim)
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["x"], ["floats"], to=FLOAT),
            helper.make_node("Flatten", ["floats"], ["flat"]),
            helper.make_node("MatMul", ["flat", "matrix"], ["y"]),
            *nodes,
        ],
        "linear",
        [helper.make_tensor_value_info("x", dtype, shape), *inputs],
        [helper.make_tensor_value_info("y", FLOAT, None), *outputs],
        [numpy_helper.from_array(matrix, "matrix")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), *opsets])
    model.ir_version = 8
    path.write_bytes(model.SerializeToString())
    return matrix


def expected(matrix: np.ndarray, arrays: np.ndarray) -> np.ndarray:
    """The unit rows of arrays (N, …), flattened as they are, times the matrix."""
    rows = arrays.reshape(len(arrays), -1).astype(np.float64) @ matrix
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def changed(path: Path, change) -> None:
    """Apply `change` to the model in a file."""
    model = onnx.load_model(path, load_external_data=False)
    change(model)
    path.write_bytes(model.SerializeToString())


def external(path: Path, location: str = "weights.bin") -> None:
    """Keep the matrix of a model in another file, beside it, and call that file so."""
    model = onnx.load(path)
    matrix = model.graph.initializer[0]
    (path.parent / "weights.bin").write_bytes(matrix.raw_data)
    matrix.ClearField("raw_data")
    matrix.data_location = TensorProto.EXTERNAL
    matrix.external_data.add(key="location", value=location)
    path.write_bytes(model.SerializeToString())
