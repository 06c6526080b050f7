"""A gallery as a Parquet file, for other tools and for copies, and back.

Columns: `name`, `id` of the sample, `embedding` (D float32, of length 1), `source`, `digest`
(SHA-256 of the image, hexadecimal), `added` (UTC) and, where they were kept, `image` (the bytes of
a file). The schema's metadata names the model, so that embeddings of another are not mixed in.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arcset.errors import ArcsetError, DataError, InputError, OptionError
from arcset.files import one_line, parse_json, reading, replacing
from arcset.recognition.gallery.samples import Row, unit_rows
from arcset.recognition.gallery.settings import Settings

_KEY = b"arcset.gallery"
_VERSION = 1
_BATCH = 4096  # rows at a time
_BATCH_WITH_IMAGES = 256


def write_rows(
    path: Path, settings: Settings, batches: Iterable[Sequence[Row]], *, images: bool = False
) -> int:
    """Write rows, with their images where `images` says so, and return how many.

    `path` is replaced whole or not at all.
    """
    from pyarrow import parquet

    if path.suffix != ".parquet":
        raise OptionError(
            f"{path} does not end in .parquet, the files that galleries are written to"
        )
    schema, count = _schema(settings, images), 0
    try:
        with replacing(path) as part, parquet.ParquetWriter(part, schema) as writer:
            for rows in batches:
                writer.write_batch(_as_batch(rows, schema))
                count += len(rows)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from None
    return count


def _schema(settings: Settings, images: bool) -> Any:
    import pyarrow as arrow

    about = {
        "version": _VERSION,
        "dim": settings.dim,
        "model": settings.model_name,
        "model_digest": settings.model_digest,
        "scoring": settings.scoring.word,
    }
    columns = {
        "name": arrow.string(),
        "id": arrow.int64(),
        "embedding": arrow.list_(arrow.float32(), settings.dim),
        "source": arrow.string(),
        "digest": arrow.string(),
        "added": arrow.timestamp("us", tz="UTC"),
        **({"image": arrow.binary()} if images else {}),
    }
    return arrow.schema(columns, metadata={_KEY: json.dumps(about, ensure_ascii=False)})


def _as_batch(rows: Sequence[Row], schema: Any) -> Any:
    import pyarrow as arrow

    columns: dict[str, Any] = {name: [getattr(row, name) for row in rows] for name in schema.names}
    columns["digest"] = [row.digest and row.digest.hex() for row in rows]
    columns["embedding"] = arrow.FixedSizeListArray.from_arrays(
        arrow.array(np.concatenate(columns["embedding"])), type=schema.field("embedding").type
    )
    return arrow.record_batch(columns, schema=schema)


def is_export(path: Path) -> bool:
    """Whether a file was written by `Gallery.export`, and not by another tool.

    Raises `DataError` for a Parquet file that is damaged.
    """
    if path.suffix != ".parquet" or path.is_dir():
        return False
    from pyarrow import parquet

    with reading(path, "Parquet file"):
        return _KEY in (parquet.read_schema(path).metadata or {})


class GalleryFile:
    """A Parquet file that `Gallery.export` wrote.

    Attributes:
        settings: dimension, model and scoring of the gallery that it was written from.
        count: how many samples it holds. has_images: whether images of theirs can come along.

    Raises `DataError` for a file that is missing, damaged, or of another kind.
    """

    def __init__(self, path: Path | str) -> None:
        from pyarrow import parquet

        self.path = Path(path)
        with reading(self.path, "Parquet file"):
            self._file = parquet.ParquetFile(self.path)
            written = (self._file.schema_arrow.metadata or {}).get(_KEY)
            if written is None:
                raise DataError(f"{path} was not written by `arcset gallery export`")
            about = {**parse_json(written)}
            if (version := about.pop("version", None)) != _VERSION:
                raise DataError(f"{path} is of version {version!r:.50}, expected {_VERSION}")
        self.settings = Settings.of({**about, "digest": about.get("model_digest")}, path)
        self.count = int(self._file.metadata.num_rows)
        self.has_images = "image" in self._file.schema_arrow.names

    def batches(self) -> Iterator[list[Row]]:
        """All samples, some at a time, each checked as if it was enrolled by hand."""
        import pyarrow as arrow

        schema = _schema(self.settings, self.has_images)
        schema = schema.remove(schema.get_field_index("id"))
        size = _BATCH_WITH_IMAGES if self.has_images else _BATCH
        with reading(self.path, "Parquet file"):
            for batch in self._file.iter_batches(size, columns=schema.names):
                table = arrow.Table.from_batches([batch]).select(schema.names)
                try:
                    yield self._rows(table.cast(schema))
                except (ArcsetError, arrow.ArrowException) as error:
                    raise DataError(
                        f"{self.path} does not hold a gallery's samples, with embeddings of"
                        f" {self.settings.dim} numbers: {one_line(error)}"
                    ) from None

    def _rows(self, table: Any) -> list[Row]:
        import pyarrow as arrow

        dim = self.settings.dim
        if any(table[name].null_count for name in ("name", "embedding", "added")):
            raise InputError("a sample lacks its name, its embedding or when it was added")
        flat = table["embedding"].chunk(0).flatten().to_numpy(zero_copy_only=False)
        vectors = unit_rows(flat.reshape(-1, dim), dim)  # copies stay equal bit for bit
        images = table["image"].to_pylist() if self.has_images else [None] * len(table)
        digests = [text and bytes.fromhex(text) for text in table["digest"].to_pylist()]
        columns = table["name"].to_pylist(), vectors, table["source"].to_pylist(), digests, images
        moments = table["added"].cast(arrow.int64()).to_pylist()
        rows = [Row(*values) for values in zip(*columns, moments, strict=True)]
        for row in rows:
            row.check()
        return rows
