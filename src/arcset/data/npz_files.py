"""Named arrays out of npz files, whoever wrote them; nothing is unpickled."""

import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError

__all__ = ["find_array", "read_npz"]

Arrays = Mapping[str, npt.NDArray[Any]]


def read_npz(path: Path, wanted: Collection[str] | None = None) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file, or those whose names are `wanted`.

    Where none of these is there, all names come with empty arrays, for a message that lists them.
    Raises `DataError`, naming the file, where it is damaged, missing, or a single array.
    """
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            raise DataError(f"{path} holds a single array, expected an npz file of several")
        with content:
            names = [name for name in content.files if wanted is None or name in wanted]
            found = {name: content[name] for name in names}
            return found or {name: np.empty(0) for name in content.files}
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a readable npz file: {error}") from None


def find_array(arrays: Arrays, names: Sequence[str], what: str, path: Path) -> npt.NDArray[Any]:
    """The array under the first of `names` that is there; a `DataError` lists what is."""
    for name in names:
        if name in arrays:
            return arrays[name]
    raise DataError(
        f"{path} holds {', '.join(arrays) or 'nothing'}, expected {what} under one of the names "
        f"{', '.join(names)}"
    )
