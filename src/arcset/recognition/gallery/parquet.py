"""A gallery as a Parquet file, for other tools and for copies, and back.

Columns: `name`, `id` of the sample, `embedding` (D float32, of length 1), `source`, `digest`
(SHA-256 of the image, hexadecimal), `added` (UTC) and, where they were kept, `image` (the bytes of
a file). The schema's metadata names the model, so that embeddings of another are not mixed in.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from arcset.errors import ArcsetError, DataError, InputError, OptionError
from arcset.files import one_line, parse_json, reading, replacing
from arcset.recognition.gallery.samples import Row, unit_rows
from arcset.recognition.recognizer import Embeddings

if TYPE_CHECKING:
    from arcset.recognition.gallery.settings import Settings

__all__ = ["GalleryFile", "is_export", "write_rows"]

_KEY = b"arcset.gallery"
_VERSION = 1
_BATCH = 4096  # rows at a time
_BATCH_WITH_IMAGES = 256


def write_rows(
    path: Path, settings: "Settings", batches: Iterable[Sequence[Row]], *, images: bool = False
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


def _schema(settings: "Settings", images: bool) -> Any:
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

    flat = np.frombuffer(b"".join(row.embedding for row in rows), "<f4")
    kind = schema.field("embedding").type
    columns: dict[str, Any] = {name: [getattr(row, name) for row in rows] for name in schema.names}
    columns["digest"] = [row.digest and row.digest.hex() for row in rows]
    columns["embedding"] = arrow.FixedSizeListArray.from_arrays(
        arrow.array(flat.astype(np.float32, copy=False)), type=kind
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
        dim, model_name, model_digest: of its embeddings; the model's are empty where nobody said.
        scoring: of the gallery that it was written from.
        count: how many samples it holds. has_images: whether images of theirs can come along.

    Raises `DataError` for a file that is missing, damaged, or of another kind.
    """

    def __init__(self, path: Path | str) -> None:
        from pyarrow import parquet

        self.path = Path(path)
        with reading(self.path, "Parquet file"):
            self._file = parquet.ParquetFile(self.path)
            said = (self._file.schema_arrow.metadata or {}).get(_KEY)
        if said is None:
            raise DataError(f"{self.path} was not written by `arcset gallery export`")
        try:
            about = parse_json(said)
            if about["version"] != _VERSION:
                raise DataError(
                    f"{self.path} is of version {about['version']!r:.50}, expected {_VERSION}"
                )
            self.dim = int(about["dim"])
            self.model_name, self.model_digest = str(about["model"]), str(about["model_digest"])
            self.scoring = str(about["scoring"])
            if not self.model_digest.isprintable():
                raise ValueError(f"its digest is {self.model_digest[:12]!r}…")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"{self.path} is damaged in what it says of its model: {one_line(error)}"
            ) from None
        self.count = int(self._file.metadata.num_rows)
        self.has_images = "image" in self._file.schema_arrow.names

    def batches(self) -> Iterator[list[Row]]:
        """All samples, some at a time, each checked as if it was enrolled by hand."""
        names = set(self._file.schema_arrow.names)
        lacking = {"name", "embedding", "source", "digest", "added"} - names
        if lacking:
            raise DataError(f"{self.path} lacks the column {sorted(lacking)[0]!r}")
        size, count = _BATCH_WITH_IMAGES if self.has_images else _BATCH, 0
        with reading(self.path, "Parquet file"):
            for batch in self._file.iter_batches(size):
                try:
                    rows = self._batch(batch)
                except ArcsetError as error:
                    raise DataError(f"{self.path}: {error}") from None
                count += len(rows)
                yield rows
        if count != self.count:
            raise DataError(f"{self.path} is damaged: {count:,} of {self.count:,} samples came")

    def _batch(self, batch: Any) -> list[Row]:
        import pyarrow as arrow

        for name in ("name", "embedding", "added"):
            if batch.column(name).null_count:
                raise InputError(f"the column {name!r} has gaps")
        moments = batch.column("added").cast(arrow.timestamp("us", tz="UTC")).cast(arrow.int64())
        no_images: list[None] = [None] * len(batch)
        rows = [
            Row(
                name,
                vector.tobytes(),
                source,
                None if digest is None else bytes.fromhex(digest),
                image,
                added,
            )
            for name, vector, source, digest, image, added in zip(
                batch.column("name").to_pylist(),
                self._vectors(batch.column("embedding"), len(batch)).astype("<f4", copy=False),
                batch.column("source").to_pylist(),
                batch.column("digest").to_pylist(),
                batch.column("image").to_pylist() if self.has_images else no_images,
                moments.to_pylist(),
                strict=True,
            )
        ]
        for row in rows:
            row.check(self.dim)
        return rows

    def _vectors(self, column: Any, count: int) -> Embeddings:
        flat = column.flatten().to_numpy(zero_copy_only=False)
        if set(column.value_lengths().to_pylist()) - {self.dim} or len(flat) != count * self.dim:
            raise InputError(f"not all embeddings are {self.dim} numbers")
        return unit_rows(flat.reshape(count, self.dim), self.dim)  # copies stay equal bit for bit
