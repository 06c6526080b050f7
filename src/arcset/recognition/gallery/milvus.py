"""A gallery in Milvus: one collection, whose rows are the samples.

A row has an id that Milvus gives, the name of its subject, the embedding, when it was added, source
and digest. The settings are properties of the collection. Nothing else is stored: the subjects are
those that have samples, so that many may enroll at once without any agreement.

Milvus has no transactions. What a method inserts is there in one message of up to 16 MB, or not;
`rename` and `merge` insert the samples under their new name, then delete the old ones.
"""

import itertools
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError, InputError
from arcset.recognition.gallery.address import Address
from arcset.recognition.gallery.base import Gallery
from arcset.recognition.gallery.milvus_client import (
    LONGEST_TEXT,
    Client,
    Record,
    Records,
    padded,
    quote_all,
)
from arcset.recognition.gallery.samples import Row, Subject, as_time, now
from arcset.recognition.gallery.scoring import exact_cosines, slack
from arcset.recognition.gallery.settings import Settings
from arcset.recognition.recognizer import Embeddings

__all__ = ["MilvusGallery"]

_YOUNG = 1.0  # seconds for which settings and sizes are used again, unless asked to be strong
_NAMES = 1_000  # of subjects that one question is about

_PREFIX = "arcset."  # of the collection's properties that are settings
_MAY_BE_EMPTY = ("model", "digest")  # the other settings are absent if empty

_FIELDS = ("subject", "embedding", "added", "source", "digest")


class MilvusGallery(Gallery):
    """A gallery in a collection of Milvus 2.3 or later, or of Milvus Lite.

    Differences from a gallery in a file:

    - With the consistency `session`, the default, you see all that was there when you opened the
      gallery and all that you changed; what others change comes a moment later. With `strong` you
      see everything at once, and each question waits for the server's clock.
    - `rename` and `merge` are not atomic: if the process is killed, samples may be there under both
      names. The samples get new numbers.
    - Scores are exact, and with the index `flat` so are answers; another index may overlook some.
    - Images are not kept, and so it cannot move to another model.
    - What is removed is found by nobody, but stays on the server's disks until it compacts them.
    """

    path: Address
    can_hold_images = False

    _names: set[str]  # of the subjects; read at `_named_at`
    _samples: int  # how many there are; counted at `_counted_at`
    _counted_at: float
    _named_at: float
    _names_hold_until: float

    def __init__(self, client: Client, *, read_only: bool = False) -> None:
        self.path, self.read_only, self._client = client.address, read_only, client
        self._is_strong = client.address.consistency == "strong"
        self._read_settings()
        self.dim = client.dim = self._latest.dim
        self._forget_sizes()

    @classmethod
    def _connect(cls, path: Address, *, read_only: bool) -> Self | None:
        if path.file is not None and not path.file.exists():
            return None
        client = Client(path)
        try:
            if client.call("has_collection"):
                gallery = cls(client, read_only=read_only)
                client.prepare()
                return gallery
        except BaseException:
            client.close()
            raise
        client.close()
        return None

    @classmethod
    def _create(cls, path: Address, settings: dict[str, str]) -> Self:
        client = Client(path)
        try:
            properties = {f"{_PREFIX}{key}": value for key, value in settings.items()}
            client.create(int(settings["dim"]), properties)
            return cls(client)
        except BaseException:
            client.close()
            raise

    @staticmethod
    def _drop(path: Address) -> None:
        client = Client(path)
        try:
            if client.call("has_collection"):
                client.call("drop_collection")
        finally:
            client.close()

    def close(self) -> None:
        self._client.close()

    # Settings, and how many there are

    @contextmanager
    def together(self) -> Iterator[None]:
        """Without transactions, nothing more than that the settings are young."""
        if self._is_strong or time.monotonic() - self._read_at > _YOUNG:
            self._read_settings()
        yield

    @property
    def _settings(self) -> Settings:
        return self._latest

    def _read_settings(self) -> None:
        properties = self._client.call("describe_collection").get("properties", {})
        found = {
            key: value
            for name, value in properties.items()
            if (key := name.removeprefix(_PREFIX)) != name and (value or key in _MAY_BE_EMPTY)
        }
        if not found:
            raise DataError(f"{self.path} is no gallery: another program made the collection")
        self._latest, self._read_at = Settings.of(found, self.path), time.monotonic()

    def _write(self, **values: str | None) -> None:
        self._check_writable()
        # Milvus 2.3 cannot take a property away.
        properties = {f"{_PREFIX}{key}": value or "" for key, value in values.items()}
        self._client.call("alter_collection_properties", properties=properties)
        self._read_settings()

    def _check_writable(self) -> None:
        if self.read_only:
            raise DataError(f"{self.path} was opened for reading only; nothing was changed")

    def _sizes(self) -> tuple[int, int]:
        """Milvus counts rows, but not different names: all names are read.

        They are read again when the number of rows is another one or a minute has passed; but not
        so often that it takes more than a twentieth of the time, unless the consistency is strong.
        """
        started = time.monotonic()
        if self._is_strong or started > self._counted_at + _YOUNG:
            samples = self._client.count()
            is_changed = samples != self._samples or started > self._named_at + 60
            if self._is_strong or (is_changed and started > self._names_hold_until):
                parts = self._client.walk(["subject"])
                self._names = {row["subject"] for part in parts for row in part}
                self._named_at = time.monotonic()
                self._names_hold_until = self._named_at + 20 * (self._named_at - started)
            self._samples, self._counted_at = samples, time.monotonic()
        return len(self._names), self._samples

    def _forget_sizes(self) -> None:
        self._names, self._samples = set[str](), -1
        self._counted_at = self._named_at = self._names_hold_until = float("-inf")

    @property
    def byte_count(self) -> None:
        """None: Milvus does not tell."""

    # Searching

    def _search(
        self, probes: Embeddings, k: int
    ) -> tuple[list[tuple[str, ...]], npt.NDArray[np.float64]]:
        """The nearest subjects of each probe and their scores: see `Gallery.search`.

        Where an approximate index finds fewer for a probe than for others, it has fewer names, and
        the rest of its scores is NaN.
        """
        limit = min(self._client.most_hits, max(32, 4 * k))
        step = self._client.most_hits // limit
        rankings: list[dict[str, float]] = []
        with self.together():
            for start in range(0, len(probes), step):
                part = probes[start : start + step]
                nearest = self._client.nearest(part, limit)
                read: dict[str, list[Embeddings]] = {}
                self._samples_of(itertools.chain.from_iterable(nearest), read)
                rankings += [
                    self._best_subjects(probe, hits, limit, k, read)
                    for probe, hits in zip(part, nearest, strict=True)
                ]
        scores = np.full((len(probes), max(map(len, rankings))), np.nan)
        for row, ranking in zip(scores, rankings, strict=True):
            row[: len(ranking)] = list(ranking.values())
        return [tuple(ranking) for ranking in rankings], scores

    def _best_subjects(
        self,
        probe: Embeddings,
        hits: Records,
        limit: int,
        k: int,
        read: dict[str, list[Embeddings]],
    ) -> dict[str, float]:
        """The best k subjects and their scores, falling.

        No subject scores more than its best sample. So if k of those found score more than the last
        hit, no others can be among the best; if not, more samples are asked for, and when Milvus
        gives no more at once, samples of others than those found.
        """
        scores, most = dict[str, float](), self._client.most_hits
        while True:
            scores |= self._score(probe, self._samples_of(hits, read))
            best = sorted(scores.values(), reverse=True)[:k]
            if len(hits) < limit:
                break
            if len(best) == k and best[-1] > hits[-1]["distance"] + slack(self.dim):
                break
            without = scores if limit == most else ()
            limit = min(most, 8 * limit)
            (hits,) = self._client.nearest(probe[None], limit, without)
        contenders = {name: score for name, score in scores.items() if score >= best[-1]}
        ages = dict[str, tuple[int, int]]()
        if len(set(contenders.values())) < len(contenders):
            for row in itertools.chain.from_iterable(self._rows(contenders)):
                ages[row.name] = min((row.added, row.id), ages.get(row.name, (row.added, row.id)))
        names = sorted(contenders, key=lambda name: (-contenders[name], ages.get(name, ())))
        return {name: contenders[name] for name in names[:k]}

    def _samples_of(
        self, hits: Iterable[Record], read: dict[str, list[Embeddings]]
    ) -> dict[str, list[Embeddings]]:
        """All samples of the subjects that were hit, or those hit if these suffice for the score.

        read: those that were read before, and from now on.
        """
        found: dict[str, list[Embeddings]] = {}
        for hit in hits:
            found.setdefault(hit["subject"], []).append(self._vector(hit))
        if self._latest.scoring.best == 1:
            return found
        for row in itertools.chain.from_iterable(self._rows(found.keys() - read.keys())):
            read.setdefault(row.name, []).append(row.embedding)
        # Some may have been removed since they were hit.
        return {name: read[name] for name in found if name in read}

    def _score(self, probe: Embeddings, samples: dict[str, list[Embeddings]]) -> dict[str, float]:
        """The exact score of each subject."""
        if not samples:
            return {}
        vectors = np.array([*itertools.chain.from_iterable(samples.values())])
        subjects = np.repeat(np.arange(len(samples)), [*map(len, samples.values())])
        _, scores = self._latest.scoring.score(exact_cosines(vectors, probe), subjects)
        return dict(zip(samples, scores.tolist(), strict=True))

    def _vector(self, record: Record) -> Embeddings:
        return np.array(record["embedding"], np.float32)[: self.dim]

    # Changing

    def _add(self, batches: Iterable[Sequence[Row]], **settings: str) -> list[int]:
        self._check_writable()
        made: list[int] = []
        try:
            for rows in batches:
                for ids in self._insert(rows):
                    made += ids
                if self._samples >= 0:
                    self._names.update(row.name for row in rows)
                    self._samples += len(rows)
            if settings:
                self._write(**settings)
        except BaseException:
            self._forget_sizes()
            self._client.delete(made)
            raise
        return made

    def _insert(self, rows: Sequence[Row]) -> Iterator[list[int]]:
        moment = now()
        for row in rows:
            if row.source is not None and len(row.source.encode()) > LONGEST_TEXT:
                raise InputError(
                    f"the source {row.source[:20]!r}… is longer than the {LONGEST_TEXT:,} bytes"
                    " that Milvus keeps of a text"
                )
        records: Records = [
            {
                "subject": row.name,
                "embedding": padded(row.embedding),
                "added": row.added or moment,
                "source": row.source or "",  # nothing is null before Milvus 2.5
                "digest": "" if row.digest is None else row.digest.hex(),
            }
            for row in rows
        ]
        return self._client.insert(records)

    @contextmanager
    def _changing(self, what: str) -> Iterator[None]:
        """Not a transaction, but what others wrote before is seen."""
        self._check_writable()
        self._client.count("Strong")
        try:
            yield
        finally:
            self._forget_sizes()

    def _delete(self, rows: Sequence[Row]) -> None:
        self._client.delete([row.id for row in rows])

    def _move(self, rows: Sequence[Row], name: str) -> None:
        for _ in self._insert([row._replace(name=name) for row in rows]):
            pass
        self._delete(rows)

    def compact(self) -> None:
        """Let Milvus write anew what holds removed samples."""
        self._check_writable()
        self._client.call("flush")
        self._client.call("compact")

    # Listing

    def _rows(
        self,
        names: Collection[str] | None = None,
        *,
        sample: int | None = None,
        images: bool = False,
    ) -> Iterator[Sequence[Row]]:
        conditions: Iterable[str] = [""]
        if sample is not None:
            conditions = [f"id == {sample}"]
        elif names is not None:
            parts = [[*names][start : start + _NAMES] for start in range(0, len(names), _NAMES)]
            conditions = [f"subject in {quote_all(part)}" for part in parts]
        for condition in conditions:
            for part in self._client.walk(_FIELDS, condition):
                yield [
                    Row(
                        record["subject"],
                        self._vector(record),
                        record["source"] or None,
                        bytes.fromhex(record["digest"]) or None,
                        None,
                        record["added"],
                        record["id"],
                    )
                    for record in part
                ]

    def subjects(self) -> tuple[Subject, ...]:
        """All subjects, the first enrolled first; reads the name of every sample."""
        counts, since = Counter[str](), dict[str, tuple[int, int]]()
        for row in itertools.chain.from_iterable(self._client.walk(["subject", "added"])):
            name, age = row["subject"], (row["added"], row["id"])
            counts[name] += 1
            since[name] = min(age, since.get(name, age))
        names = sorted(since, key=since.__getitem__)
        return tuple(Subject(name, counts[name], as_time(since[name][0])) for name in names)
