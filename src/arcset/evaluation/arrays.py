"""Checking what callers hand in: numpy arrays, torch tensors or nested lists become numpy arrays.

Every measure takes its input through here, so that the same mistake gets the same sentence.
"""

from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError

if TYPE_CHECKING:
    import torch  # tensors are taken where they are given; nothing here needs it


Array: TypeAlias = Union[npt.ArrayLike, "torch.Tensor"]


def as_array(values: Array, name: str) -> npt.NDArray[Any]:
    """`values` as a numpy array, without a copy where numpy can hold them as they are.

    Tensors may live on any device and carry a gradient; types that numpy lacks, such as
    bfloat16, become float32. `name` is the word for the values in the error message.
    """
    if hasattr(values, "detach"):
        tensor = values.detach().cpu()
        if tensor.is_floating_point() and tensor.element_size() < 4:
            tensor = tensor.float()
        return np.asarray(tensor)
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name} are not a regular array: {error}") from error


def embedding_matrix(embeddings: Array, name: str = "embeddings") -> npt.NDArray[Any]:
    """`embeddings` as a finite (N, D) matrix of float32 or float64 with N, D ≥ 1.

    float16 and bfloat16 become float32, whole numbers float64; others keep their type and, where
    possible, their memory, so the result is to be read and not written.

    Raises `InputError` for another shape, no rows or columns, another kind of number, NaN or inf.

        >>> import torch
        >>> embedding_matrix(torch.ones(2, 3, dtype=torch.bfloat16)).dtype
        dtype('float32')
    """
    matrix = as_array(embeddings, name)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"{name} have shape {matrix.shape}, expected (N, D) with N, D ≥ 1")
    if matrix.dtype.kind not in "fiu":
        raise InputError(f"{name} are of type {matrix.dtype}, expected real numbers")
    if matrix.dtype == np.float16:
        matrix = matrix.astype(np.float32)
    elif matrix.dtype not in (np.float32, np.float64):
        with np.errstate(over="ignore"):  # what float64 cannot hold is refused below
            matrix = matrix.astype(np.float64)
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        value = matrix[row][~np.isfinite(matrix[row])][0]
        raise InputError(
            f"{name} hold {value} in row {row} ({int((~finite).sum())} of {len(matrix)} rows are"
            " not finite), expected finite numbers"
        )
    return matrix


def class_numbers(
    labels: Array, count: int, name: str = "labels"
) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """The distinct labels, sorted, and for each of the `count` rows the place of its label there.

    Raises `InputError` unless `labels` are `count` integers.

        >>> distinct, numbers = class_numbers([7, 3, 7], 3)
        >>> distinct.tolist(), numbers.tolist()
        ([3, 7], [1, 0, 1])
    """
    array = as_array(labels, name)
    if array.shape != (count,):
        raise InputError(
            f"{name} have shape {array.shape}, expected ({count},): one label per embedding"
        )
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} are of type {array.dtype}, expected integers")
    distinct, numbers = np.unique(array, return_inverse=True)
    return distinct, numbers.astype(np.intp, copy=False)


def find_labels(labels: npt.NDArray[Any], known: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """For each of the `labels` its place among the `known` ones, or −1.

    By value, as the two may be of types that numpy compares as floats.

        >>> find_labels(np.array([7, 5]), np.array([3, 7], dtype=np.uint64)).tolist()
        [1, -1]
    """
    places = {label: place for place, label in enumerate(known.tolist())}
    return np.array([places.get(label, -1) for label in labels.tolist()], dtype=np.intp)


def refuse_zero_rows(matrix: npt.NDArray[Any], name: str = "embeddings") -> None:
    """Raise `InputError` if a row is all zeros: it has no direction, so no angle to another."""
    nonzero = matrix.any(axis=1)
    if not nonzero.all():
        raise InputError(
            f"{name} are all zero in row {int(np.argmin(nonzero))}"
            f" ({int((~nonzero).sum())} of {len(matrix)} rows), expected rows with a direction"
        )


def read_labelled(
    embeddings: Array,
    labels: Array,
    name: str = "embeddings",
    labels_name: str = "labels",
    columns: int | None = None,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Embeddings (N, D) with directions, the distinct labels, and the number of each row's label.

    Raises `InputError` for bad embeddings or labels, a row of zeros, and another D than `columns`.
    """
    matrix = embedding_matrix(embeddings, name)
    if columns is not None and matrix.shape[1] != columns:
        raise InputError(f"{name} have {matrix.shape[1]} columns, expected {columns}")
    refuse_zero_rows(matrix, name)
    return matrix, *class_numbers(labels, len(matrix), labels_name)


def normalize_rows(matrix: npt.NDArray[np.float64]) -> None:
    """Divide each row of `matrix` (N, D) by its Euclidean length, in place.

    Rows are first brought near 1 by a power of two, which rounds nothing, so that the squares
    of very large or very small numbers neither overflow nor vanish.
    """
    largest = np.maximum(matrix.max(axis=1), -matrix.min(axis=1))  # (N,)
    exponents = np.frexp(largest)[1]
    np.ldexp(matrix, -exponents[:, None], out=matrix)
    matrix /= np.sqrt(np.einsum("nd,nd->n", matrix, matrix))[:, None]
