"""A gallery as a Parquet file, for other tools and for copies, and back.

Columns: `name`, `id` of the sample, `embedding` (D float32, of length 1), `source`, `digest`
(SHA-256 of the image, hexadecimal), `added` (UTC) and, where they were kept, `image` (the bytes of
a file). The schema's metadata names the model, so that embeddings of another are not mixed in.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arcset.errors import ArcsetError, DataError, InputError, OptionError
from arcset.files import one_line, parse_json, reading, replacing
from arcset.recognition.gallery.changes import Row
from arcset.recognition.gallery.listing import list_subjects, moment
from arcset.recognition.gallery.names import check_name
from arcset.recognition.gallery.records import as_time
from arcset.recognition.gallery.schema import NOBODY
from arcset.recognition.gallery.settings import Settings
from arcset.recognition.gallery.store import Store
from arcset.recognition.gallery.vectors import unit_rows
from arcset.recognition.recognizer import Embeddings

__all__ = ["Batch", "GalleryFile", "is_export", "write_gallery", "write_rows"]

_KEY = b"arcset.gallery"
_VERSION = 1
_BATCH = 4096  # rows at a time
_BATCH_WITH_IMAGES = 256


def write_gallery(store: Store, path: Path, with_images: bool = True) -> int:
    """Write all samples, one state of the gallery; how many. `path` is replaced whole or not."""
    _check_ending(path)
    list_subjects(store)  # raises where names are damaged, missing or double
    images = with_images and bool(
        store.database.execute("SELECT EXISTS (SELECT 1 FROM images)").fetchone()[0]
    )
    rows = store.database.execute(
        "SELECT subjects.name, samples.id, embedding, source, lower(hex(digest)), samples.added"
        f"{', image' if images else ''}"
        " FROM samples JOIN subjects ON subjects.id = subject"
        f"{' LEFT JOIN images ON images.id = samples.id' if images else ''}"
        f" WHERE subject <> {NOBODY} ORDER BY samples.id"
    )
    size = _BATCH_WITH_IMAGES if images else _BATCH
    parts = iter(lambda: rows.fetchmany(size), [])
    sound = ([_sound(store, row) for row in part] for part in parts)
    return write_rows(path, store.settings, sound, images=images)


def _sound(store: Store, row: Sequence[Any]) -> Sequence[Any]:
    """A row of the file; raises `DataError` where its types are not those that a gallery writes."""
    _, number, embedding, source, _, added, *image = row
    right = (
        isinstance(embedding, bytes)
        and len(embedding) == 4 * store.settings.dim
        and isinstance(source, str | None)
        and all(isinstance(one, bytes | None) for one in image)
    )
    if not right:
        raise store.database.damaged(f"sample {number} holds values of a wrong type")
    moment(store, added)
    return row


def write_rows(
    path: Path, settings: Settings, parts: Iterable[Sequence[Any]], *, images: bool = False
) -> int:
    """Write rows of name, id, embedding as bytes, source, digest, time, and image where `images`.

    parts: some rows at a time. Returns how many; `path` is replaced whole or not.
    """
    import pyarrow as arrow
    from pyarrow import parquet

    _check_ending(path)
    about = {
        "version": _VERSION,
        "dim": settings.dim,
        "model": settings.model_name,
        "model_digest": settings.model_digest,
        "scoring": settings.scoring.word,
    }
    schema = arrow.schema(
        [
            ("name", arrow.string()),
            ("id", arrow.int64()),
            ("embedding", arrow.list_(arrow.float32(), settings.dim)),
            ("source", arrow.string()),
            ("digest", arrow.string()),
            ("added", arrow.timestamp("us", tz="UTC")),
            *([("image", arrow.binary())] if images else []),
        ],
        metadata={_KEY: json.dumps(about, ensure_ascii=False)},
    )
    count = 0
    try:
        with replacing(path) as part, parquet.ParquetWriter(part, schema) as writer:
            for found in parts:
                columns = list(map(list, zip(*found, strict=True)))
                flat = np.frombuffer(b"".join(columns[2]), "<f4").astype(np.float32, copy=False)
                columns[2] = arrow.FixedSizeListArray.from_arrays(arrow.array(flat), settings.dim)
                columns[4] = [digest or None for digest in columns[4]]
                arrays = [
                    column if number == 2 else arrow.array(column, schema.field(number).type)
                    for number, column in enumerate(columns)
                ]
                writer.write_batch(arrow.record_batch(arrays, schema=schema))
                count += len(found)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from None
    return count


def _check_ending(path: Path) -> None:
    if path.suffix != ".parquet":
        raise OptionError(
            f"{path} does not end in .parquet, the files that galleries are written to"
        )


def is_export(path: Path) -> bool:
    """Whether a file was written by `write_gallery`, and not by another tool.

    Raises `DataError` for a Parquet file that is damaged.
    """
    if path.suffix != ".parquet" or path.is_dir():
        return False
    from pyarrow import parquet

    with reading(path, "Parquet file"):
        return _KEY in (parquet.read_schema(path).metadata or {})


@dataclass(frozen=True)
class Batch:
    """Some samples of a file: one name, number, time and row each."""

    names: list[str]
    samples: list[int]
    added: list[int]
    rows: list[Row]


class GalleryFile:
    """A Parquet file that `write_gallery` wrote.

    Attributes:
        dim, model_name, model_digest: of its embeddings; the model's are empty where nobody said.
        scoring: of the gallery that it was written from.
        count: how many samples it holds.

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

    def batches(self) -> Iterator[Batch]:
        """All samples, some at a time, each checked as if it was enrolled by hand."""
        names = set(self._file.schema_arrow.names)
        lacking = {"name", "id", "embedding", "source", "digest", "added"} - names
        if lacking:
            raise DataError(f"{self.path} lacks the column {sorted(lacking)[0]!r}")
        size = _BATCH_WITH_IMAGES if "image" in names else _BATCH
        with reading(self.path, "Parquet file"):
            for batch in self._file.iter_batches(size):
                try:
                    found = self._batch(batch)
                except ArcsetError as error:
                    raise DataError(f"{self.path}: {error}") from None
                yield found

    def _batch(self, batch: Any) -> Batch:
        import pyarrow as arrow

        for name in ("name", "id", "embedding", "added"):
            if batch.column(name).null_count:
                raise InputError(f"the column {name!r} has gaps")
        columns = {name: batch.column(name).to_pylist() for name in ("name", "id", "source")}
        images: list[bytes | None] = [None] * len(batch)
        if "image" in batch.schema.names:
            images = batch.column("image").to_pylist()
        vectors = self._vectors(batch.column("embedding"), len(batch))
        rows = [
            Row(vector.tobytes(), source, None if digest is None else bytes.fromhex(digest), image)
            for vector, source, digest, image in zip(
                vectors.astype("<f4", copy=False),
                columns["source"],
                batch.column("digest").to_pylist(),
                images,
                strict=True,
            )
        ]
        moments = batch.column("added").cast(arrow.timestamp("us", tz="UTC")).cast(arrow.int64())
        names = [check_name(name) for name in columns["name"]]
        added = moments.to_pylist()
        for number, row, time in zip(columns["id"], rows, added, strict=True):
            as_time(time)  # or the gallery could not be listed later
            if not (
                isinstance(number, int)
                and isinstance(row.source, str | None)
                and isinstance(row.image, bytes | None)
                and (row.digest is None or len(row.digest) == 32)
            ):
                raise InputError(f"sample {number!r} holds values of a wrong type")
        return Batch(names, columns["id"], added, rows)

    def _vectors(self, column: Any, count: int) -> Embeddings:
        flat = column.flatten().to_numpy(zero_copy_only=False)
        if set(column.value_lengths().to_pylist()) - {self.dim} or len(flat) != count * self.dim:
            raise InputError(f"not all embeddings are {self.dim} numbers")
        return unit_rows(flat.reshape(count, self.dim), self.dim)  # copies stay equal bit for bit
