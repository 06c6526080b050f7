"""The `.idx` file beside a `.rec` file: per line a key, a tab, and the byte a record starts at."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from arcset.errors import DataError

__all__ = ["read_index"]


def read_index(path: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Keys (N,) and offsets (N,), in the order of the file; millions of lines take a moment.

    Raises `DataError`, naming the file, where a line is anything else or a key comes twice.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "train.idx").write_text("0\\t0\\n1\\t64\\n")
        ...     read_index(Path(folder, "train.idx"))
        (array([0, 1]), array([ 0, 64]))
    """
    try:
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=["key", "offset"]),
            parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types={"key": pa.int64(), "offset": pa.int64()}, null_values=[]
            ),
        )
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except pa.ArrowInvalid as error:
        words = str(error).partition("\n")[0]
        raise DataError(f"{path} is no index of records, a key and a byte per line: {words}") from (
            error
        )
    keys, offsets = (table[name].to_numpy() for name in ("key", "offset"))
    rising = np.sort(keys)
    twice = rising[1:][rising[1:] == rising[:-1]]
    if len(twice):
        raise DataError(f"{path} lists record {twice[0]} more than once")
    return keys, offsets
