"""A gallery in Milvus: one collection, whose rows are the samples.

A row has an id that Milvus gives, the name of its subject, the embedding, when it was added, source
and digest. The settings are properties of the collection. Nothing else is stored: the subjects are
whoever has samples, so that many may enroll at once without any agreement.

Milvus has no transactions. What a method inserts is there in one message of up to 16 MB, or not;
`rename` and `merge` insert the samples under their new name, then delete the old ones.
"""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError, InputError, OptionError
from arcset.recognition.gallery.address import Address
from arcset.recognition.gallery.base import Gallery
from arcset.recognition.gallery.milvus_client import (
    LONGEST_TEXT,
    Client,
    Record,
    Records,
    padded,
    quote,
)
from arcset.recognition.gallery.samples import Row, Sample, Subject, as_time, now
from arcset.recognition.gallery.scoring import exact_cosines, slack
from arcset.recognition.gallery.settings import Settings
from arcset.recognition.recognizer import Embeddings

__all__ = ["MilvusGallery"]

_YOUNG = 1.0  # seconds for which settings and sizes are used again, unless asked to be strong

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

    def __init__(self, client: Client, *, read_only: bool = False) -> None:
        self.path, self.read_only, self._client = client.address, read_only, client
        self._asking = _Asking()
        self._sizes: _Sizes | None = None
        self._thresholds: str | None = None
        self._read()
        self.dim = client.dim = self._known_settings.dim

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
            client.create(
                int(settings["dim"]), {f"{_PREFIX}{key}": value for key, value in settings.items()}
            )
            return cls(client)
        except BaseException:
            client.close()
            raise

    def close(self) -> None:
        """Close the connection; the gallery is of no use afterwards."""
        self._client.close()

    # Settings, and how many there are

    @property
    def _settings(self) -> Settings:
        return self._known_settings

    def _read(self) -> None:
        properties = self._client.call("describe_collection").get("properties", {})
        found = {
            key: value
            for name, value in properties.items()
            if (key := name.removeprefix(_PREFIX)) != name and (value or key in _MAY_BE_EMPTY)
        }
        if not found:
            raise DataError(f"{self.path} is no gallery: another program made the collection")
        self._thresholds = found.pop("thresholds", None)
        self._known_settings = Settings.of(found, self.path)
        self._read_at = time.monotonic()

    def _write(self, **values: str | None) -> None:
        self._check_writable()
        # Milvus 2.3 cannot take a property away.
        properties = {f"{_PREFIX}{key}": value or "" for key, value in values.items()}
        self._client.call("alter_collection_properties", properties=properties)
        self._read()

    def _calibration(self) -> str | None:
        return self._thresholds

    @contextmanager
    def together(self) -> Iterator[None]:
        """Settings are read at the beginning, and sizes once; unless strong, a second is new."""
        asking = self._asking
        if not asking.depth:
            asking.sizes = None
            if self._is_strong or time.monotonic() - self._read_at > _YOUNG:
                self._read()
        asking.depth += 1
        try:
            yield
        finally:
            asking.depth -= 1

    @property
    def _is_strong(self) -> bool:
        return self.path.consistency == "strong"

    def _count(self) -> tuple[int, int]:
        """How many subjects and samples there are.

        Milvus counts rows, but not different names: all names are read. They are read again when
        the number of samples is another one, or a minute has passed; but not so often that it takes
        more than a twentieth of the time, unless the consistency is strong.
        """
        if self._asking.depth and self._asking.sizes is not None:
            return self._asking.sizes
        samples, sizes = self._client.count(), self._sizes
        if self._is_strong or sizes is None or sizes.is_old(samples):
            started = time.monotonic()
            names = [row["subject"] for part in self._client.walk(["subject"]) for row in part]
            pause = max(_YOUNG, 20 * (time.monotonic() - started))
            sizes = self._sizes = _Sizes(set(names), len(names), started, started + pause)
        self._asking.sizes = len(sizes.names), samples
        return self._asking.sizes

    def __len__(self) -> int:
        return self._count()[0]

    @property
    def sample_count(self) -> int:
        """How many samples all subjects have together."""
        sizes = self._asking.sizes if self._asking.depth else None
        return self._client.count() if sizes is None else sizes[1]

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
        found: list[dict[str, float]] = []
        with self.together():
            for start in range(0, len(probes), step):
                part = probes[start : start + step]
                nearest = self._client.nearest(part, limit)
                samples = self._samples_to_score(itertools.chain.from_iterable(nearest))
                found += [
                    self._best_subjects(probe, hits, limit, k, samples)
                    for probe, hits in zip(part, nearest, strict=True)
                ]
        scores = np.full((len(probes), max(map(len, found))), np.nan)
        for row, ranking in zip(scores, found, strict=True):
            row[: len(ranking)] = list(ranking.values())
        return [tuple(ranking) for ranking in found], scores

    def _best_subjects(
        self, probe: Embeddings, hits: Records, limit: int, k: int, samples: dict[str, Records]
    ) -> dict[str, float]:
        """The best k subjects and their scores, falling.

        No subject scores more than its best sample. So if k of those found score more than the last
        hit, no others can be among the best; if not, more samples are asked for, and when Milvus
        gives no more at once, samples of others than those found.
        """
        scores, most = dict[str, float](), self._client.most_hits
        while True:
            samples |= self._samples_to_score(hit for hit in hits if hit["subject"] not in samples)
            scores |= self._score(probe, hits, samples)
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
            rows = self._client.by_subject(contenders, ["added"])
            ages = {name: min(map(_age, rows[name])) for name in rows}
        names = sorted(contenders, key=lambda name: (-contenders[name], ages.get(name, ())))
        return {name: contenders[name] for name in names[:k]}

    def _samples_to_score(self, hits: Iterable[Record]) -> dict[str, Records]:
        """All samples of the subjects that were hit, unless the hits suffice to score them."""
        if self._settings.scoring.best == 1:
            return {}
        return self._client.by_subject({hit["subject"] for hit in hits}, ["embedding"])

    def _score(
        self, probe: Embeddings, hits: Records, samples: Mapping[str, Records]
    ) -> dict[str, float]:
        """The exact score of each subject that was hit."""
        scoring, rows = self._settings.scoring, hits
        names = list(dict.fromkeys(hit["subject"] for hit in hits))
        if scoring.best != 1:  # some may have been removed since they were hit
            names = [name for name in names if name in samples]
            rows = [row for name in names for row in samples[name]]
        if not names:
            return {}
        numbers = {name: number for number, name in enumerate(names)}
        subjects = np.array([numbers[row["subject"]] for row in rows], np.int64)
        _, scores = scoring.score(exact_cosines(self._vectors(rows), probe), subjects)
        return dict(zip(names, scores.tolist(), strict=True))

    def _vectors(self, rows: Records) -> Embeddings:
        """(n, D) the embeddings of rows."""
        found = np.array([row["embedding"] for row in rows], np.float32)
        return found.reshape(len(rows), max(2, self.dim))[:, : self.dim]

    def _embeddings_of(self, name: str) -> Embeddings:
        return self._vectors(self._find(name, ["embedding"]))

    # Changing

    def _check_writable(self) -> None:
        if self.read_only:
            raise DataError(f"{self.path} was opened for reading only; nothing was changed")

    def _add(self, batches: Iterable[Sequence[Row]], **settings: str) -> list[int]:
        self._check_writable()
        made: list[int] = []
        try:
            for rows in batches:
                moment = now()
                records = [self._record(row, moment) for row in rows]
                for ids in self._client.insert(records):
                    made += ids
                if self._sizes is not None:
                    self._sizes.add(records)
            if settings:
                self._write(**settings)
        except BaseException:
            self._delete(made)
            raise
        return made

    def _record(self, row: Row, moment: int) -> Record:
        if row.source is not None and len(row.source.encode()) > LONGEST_TEXT:
            raise InputError(
                f"the source {row.source[:20]!r}… is longer than the {LONGEST_TEXT:,} bytes that"
                " Milvus keeps of a text"
            )
        return {
            "subject": row.name,
            "embedding": padded(np.frombuffer(row.embedding, "<f4")),
            "added": moment if row.added is None else row.added,
            "source": row.source or "",  # nothing is null before Milvus 2.5
            "digest": "" if row.digest is None else row.digest.hex(),
        }

    def _delete(self, ids: Sequence[int]) -> None:
        if ids:
            self._sizes = None
            self._client.delete(ids)

    def remove(self, name: str) -> int:
        self._check_writable()
        ids = [row["id"] for row in self._find(name, (), "Strong")]
        self._delete(ids)
        return len(ids)

    def remove_sample(self, sample: int) -> None:
        self._check_writable()
        self._check_sample(sample)
        self._delete([int(sample)])

    def _rename(self, old: str, new: str) -> None:
        self._check_writable()
        rows = self._find(old, _FIELDS, "Strong")
        if new in self:
            raise OptionError(
                f"{new!r} is enrolled in {self.path} already: merge {old!r} into that subject"
            )
        self._move(rows, new)

    def _merge(self, source: str, into: str) -> None:
        self._check_writable()
        rows = self._find(source, _FIELDS, "Strong")
        self._find(into, ())
        self._move(rows, into)

    def _move(self, rows: Records, name: str) -> None:
        for _ in self._client.insert([{**row, "subject": name} for row in rows]):
            pass
        self._delete([row["id"] for row in rows])

    def compact(self) -> None:
        """Let Milvus write anew what holds removed samples."""
        self._check_writable()
        self._client.call("flush")
        self._client.call("compact")

    # Listing

    def _find(self, name: str, fields: Sequence[str], level: str | None = None) -> Records:
        """The rows of a subject, rising by id; raises `OptionError` where it has none."""
        rows = self._client.query(f"subject == {quote(name)}", fields, level=level)
        if not rows:
            raise OptionError(f"{name!r} is not enrolled in {self.path}")
        return rows

    def _check_sample(self, sample: object) -> None:
        is_number = isinstance(sample, int | np.integer) and 0 < sample < 2**63
        if not is_number or not self._client.query(f"id == {sample}", (), level="Strong"):
            raise OptionError(f"there is no sample {sample!r} in {self.path}")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(
            self._client.query(f"subject == {quote(name)}", (), most=1)
        )

    def subjects(self) -> tuple[Subject, ...]:
        """All subjects, the first enrolled first; reads the name of every sample."""
        counts, since = Counter[str](), dict[str, tuple[int, int]]()
        for row in itertools.chain.from_iterable(self._client.walk(["subject", "added"])):
            name = row["subject"]
            counts[name] += 1
            since[name] = min(_age(row), since.get(name, _age(row)))
        names = sorted(since, key=since.__getitem__)
        return tuple(Subject(name, counts[name], as_time(since[name][0])) for name in names)

    def samples(self, name: str) -> tuple[Sample, ...]:
        return tuple(
            Sample(
                row["id"],
                row["source"] or None,
                row["digest"] or None,
                as_time(row["added"]),
                False,
            )
            for row in self._find(name, ["added", "source", "digest"])
        )

    def image(self, sample: int) -> None:
        """None, as images are not kept; raises `OptionError` for a sample that is not there."""
        self._check_sample(sample)

    def labelled(self) -> tuple[Embeddings, tuple[str, ...]]:
        vectors, names = [np.empty((0, self.dim), np.float32)], list[str]()
        for part in self._client.walk(["subject", "embedding"]):
            vectors.append(self._vectors(part))
            names += [row["subject"] for row in part]
        return np.concatenate(vectors), tuple(names)

    def repeated(self, most: int) -> tuple[Embeddings, npt.NDArray[np.int64]]:
        counts = Counter(row["subject"] for part in self._client.walk(["subject"]) for row in part)
        names = [name for name, count in counts.items() if count > 1]
        if len(names) > most:
            names = [names[index] for index in np.linspace(0, len(names) - 1, most).astype(int)]
        found = self._client.by_subject(names, ["embedding"])
        vectors = [self._vectors(found[name]) for name in found]
        numbers = np.repeat(np.arange(len(found)), [len(rows) for rows in vectors])
        return np.concatenate([np.empty((0, self.dim), np.float32), *vectors]), numbers

    def _rows(self, images: bool) -> Iterator[Sequence[Row]]:
        for part in self._client.walk(_FIELDS):
            yield [
                Row(
                    row["subject"],
                    vector.astype("<f4", copy=False).tobytes(),
                    row["source"] or None,
                    bytes.fromhex(row["digest"]) or None,
                    None,
                    row["added"],
                    row["id"],
                )
                for row, vector in zip(part, self._vectors(part), strict=True)
            ]


class _Asking(threading.local):
    """What one thread knows while it asks several questions together."""

    depth = 0
    sizes: tuple[int, int] | None = None


@dataclass
class _Sizes:
    """The names of all subjects and the number of samples: when read, and until when good."""

    names: set[str]
    samples: int
    read_at: float
    good_until: float

    def is_old(self, samples: int) -> bool:
        """Whether others have changed the gallery, or might have a minute ago."""
        moment = time.monotonic()
        changed = samples != self.samples or moment > self.read_at + 60
        return changed and moment > self.good_until

    def add(self, records: Records) -> None:
        self.names.update(record["subject"] for record in records)
        self.samples += len(records)


def _age(row: Record) -> tuple[int, int]:
    return row["added"], row["id"]
