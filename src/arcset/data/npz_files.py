"""Named arrays out of npz files, whoever wrote them; nothing is unpickled."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError
from arcset.files import reading

__all__ = ["find_array", "read_npz"]

Arrays = Mapping[str, npt.NDArray[Any]]
_LARGE = 1 << 30  # bytes from which on it is asked how much memory is free


def read_npz(path: Path, wanted: Collection[str] | None = None) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file, or those whose names are `wanted`.

    Where none of these is there, all names come with empty arrays, for a message that lists them.
    Raises `DataError`, naming the file, where it is damaged, missing, or a single array.
    """
    with reading(path, "npz file"):
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            raise DataError(f"{path} holds a single array, expected an npz file of several")
        with content:
            names = [name for name in content.files if wanted is None or name in wanted]
            members = {info.filename.removesuffix(".npy"): info for info in content.zip.infolist()}
            _check_memory(path, sum(members[name].file_size for name in names))
            found = {name: content[name] for name in names}
            for name, array in found.items():
                # Elements of no bytes would let a small file claim any number of them.
                if not isinstance(array, np.ndarray) or (array.size and not array.itemsize):
                    raise DataError(f"{path} is not a readable npz file: {name} is not an array")
            return found or {name: np.empty(0) for name in content.files}


def _check_memory(path: Path, size: int) -> None:
    """Refuse a file of a few bytes that unpacks to more than the machine has."""
    if size < _LARGE:
        return
    import torch

    from arcset.devices import free_memory

    free = free_memory(torch.device("cpu"))
    if 0 < free < size:
        raise DataError(
            f"{path} holds {size / 2**30:,.3g} GiB when unpacked, and {free / 2**30:,.3g} GiB of"
            " memory are free"
        )


def find_array(arrays: Arrays, names: Sequence[str], what: str, path: Path) -> npt.NDArray[Any]:
    """The array under the first of `names` that is there; a `DataError` lists what is."""
    for name in names:
        if name in arrays:
            return arrays[name]
    raise DataError(
        f"{path} holds {', '.join(arrays) or 'nothing'}, expected {what} under one of the names "
        f"{', '.join(names)}"
    )
