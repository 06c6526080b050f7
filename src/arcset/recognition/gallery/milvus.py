"""A gallery in Milvus: one collection, whose rows are the samples.

A row has an id that Milvus gives, the name of its subject, the embedding, when it was added, source
and digest. The settings are properties of the collection. Nothing else is stored: the subjects are
those that have samples, so that many may enroll at once without any agreement.

Milvus has no transactions. What a method inserts is there in one message of up to 16 MB, or not;
`rename` and `merge` insert the samples under their new name, then delete the old ones.
"""

import itertools
import json
import logging
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError, OptionError
from arcset.recognition.gallery.base import Gallery
from arcset.recognition.gallery.milvus_address import INDEXES, Address
from arcset.recognition.gallery.samples import Row, Subject, as_time, now
from arcset.recognition.gallery.scoring import exact_cosines, slack
from arcset.recognition.gallery.settings import Settings
from arcset.recognition.recognizer import Embeddings

_YOUNG = 1.0  # seconds for which settings and sizes are used again, unless asked to be strong

_PREFIX = "arcset."  # of the collection's properties that are settings

_FIELDS = ("subject", "embedding", "added", "source", "digest")
_Record = Mapping[str, Any]
_Records = list[_Record]

_OLDEST = (2, 3)  # version of Milvus
_LONGEST_TEXT = 65_535  # bytes
_LARGEST_DIM = 32_768
_LONGEST_NAME = 1_024  # bytes
_MOST_HITS = 16_384  # samples that Milvus finds for one probe
_MESSAGE = 16 << 20  # bytes of rows in one message, for which Milvus has 64 MB
_ROWS = 4_096  # in one message, if they are small
_NAMES = 1_000  # in one condition

_PATIENCE = 60.0  # seconds for one question
_REACHING = 10.0  # seconds until a server answers at all

_BUILDING = {"HNSW": {"M": 32, "efConstruction": 360}, "IVF_FLAT": {"nlist": 1024}}


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

    def __init__(self, client: "Client", *, read_only: bool = False) -> None:
        self.path, self.read_only, self._client = client.address, read_only, client
        self._young = 0.0 if client.address.consistency == "strong" else _YOUNG
        self._read_settings()
        self.dim = client.dim = self._latest.dim
        self._forget_sizes()

    @classmethod
    def _connect(cls, path: Address, *, read_only: bool) -> Self | None:
        if path.file is not None and not path.file.exists():
            return None
        with _closed_on_error(Client(path)) as client:
            if not client.call("has_collection"):
                client.close()
                return None
            gallery = cls(client, read_only=read_only)
            client.prepare()
            return gallery

    @classmethod
    def _create(cls, path: Address, settings: dict[str, str]) -> Self:
        with _closed_on_error(Client(path)) as client:
            properties = {f"{_PREFIX}{key}": value for key, value in settings.items()}
            client.create(int(settings["dim"]), properties)
            return cls(client)

    @staticmethod
    def _drop(path: Address) -> None:
        with closing(Client(path)) as client:
            if client.call("has_collection"):
                client.call("drop_collection")

    def close(self) -> None:
        self._client.close()

    # Settings, and how many there are

    @contextmanager
    def together(self) -> Iterator[None]:
        """Without transactions, nothing more than that the settings are young."""
        if time.monotonic() >= self._read_at + self._young:
            self._read_settings()
        yield

    @property
    def _settings(self) -> Settings:
        return self._latest

    def _read_settings(self) -> None:
        properties = self._client.call("describe_collection").get("properties", {})
        values = {
            key: value
            for name, value in properties.items()
            if (key := name.removeprefix(_PREFIX)) != name and value
        }
        if not values:
            raise DataError(f"{self.path} is no gallery: another program made the collection")
        self._latest, self._read_at = Settings.of(values, self.path), time.monotonic()

    def _write(self, **values: str | None) -> None:
        self._check_writable()
        # Milvus 2.3 cannot take a property away: an empty one counts as absent.
        properties = {f"{_PREFIX}{key}": value or "" for key, value in values.items()}
        self._client.call("alter_collection_properties", properties=properties)
        self._read_settings()

    def _check_writable(self) -> None:
        if self.read_only:
            raise DataError(f"{self.path} was opened for reading only; nothing was changed")

    def _forget_sizes(self) -> None:
        self._samples, self._counted_at = -1, -math.inf
        # The subjects' names when there were so many samples, and until when they will do.
        self._names, self._named_samples = Counter[str](), -1
        self._named_at, self._names_hold_until = -math.inf, -math.inf

    def _sizes(self) -> tuple[int, int]:
        """Milvus counts rows, but not different names: all names are read.

        They are read again when the number of rows is another one or a minute has passed; but not
        so often that it takes more than a twentieth of the time, unless the consistency is strong.
        """
        moment = time.monotonic()
        if moment >= self._counted_at + self._young:
            samples = self._client.count()
            is_changed = samples != self._named_samples or moment > self._named_at + 60
            if not self._young or (is_changed and moment > self._names_hold_until):
                names = self._client.walk(["subject"])
                self._names = Counter(row["subject"] for part in names for row in part)
                self._named_samples, self._named_at = samples, time.monotonic()
                self._names_hold_until = self._named_at + 20 * (self._named_at - moment)
            self._samples, self._counted_at = samples, moment  # the last: other threads go by them
        return len(self._names), self._samples

    def _image_counts(self) -> dict[int, int]:
        self._sizes()
        return Counter(self._names.values())

    def _is_empty(self) -> bool:
        return not self._client.count("Strong")

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
        hits: _Records,
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
        self, hits: Iterable[_Record], read: dict[str, list[Embeddings]]
    ) -> dict[str, list[Embeddings]]:
        """All samples of the subjects that were hit, or those hit if these suffice for the score.

        read: those that were read before, and from now on.
        """
        samples: dict[str, list[Embeddings]] = {}
        for hit in hits:
            samples.setdefault(hit["subject"], []).append(_vector(hit))
        if self._latest.scoring.best == 1:
            return samples
        for row in itertools.chain.from_iterable(self._rows(samples.keys() - read.keys())):
            read.setdefault(row.name, []).append(row.embedding)
        # Some may have been removed since they were hit.
        return {name: read[name] for name in samples if name in read}

    def _score(self, probe: Embeddings, samples: dict[str, list[Embeddings]]) -> dict[str, float]:
        """The exact score of each subject."""
        if not samples:
            return {}
        vectors = np.array([*itertools.chain.from_iterable(samples.values())])
        subjects = np.repeat(np.arange(len(samples)), [*map(len, samples.values())])
        _, scores = self._latest.scoring.score(exact_cosines(vectors, probe), subjects)
        return dict(zip(samples, scores.tolist(), strict=True))

    # Changing

    def _add(self, batches: Iterable[Sequence[Row]], **settings: str) -> list[int]:
        self._check_writable()
        made: list[int] = []  # the ids so far
        try:
            for rows in batches:
                for ids in self._insert(rows):
                    made += ids
                if self._samples >= 0:
                    self._names.update(row.name for row in rows)
                    self._samples += len(rows)
                    self._named_samples += len(rows)
            if settings:
                self._write(**settings)
        except BaseException:
            self._forget_sizes()
            if made:
                self._client.delete(made)
            raise
        return made

    def _insert(self, rows: Sequence[Row]) -> Iterator[list[int]]:
        moment = now()
        records: _Records = [
            {
                "subject": row.name,
                "embedding": row.embedding,
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
            conditions = [f"subject in {_quote_all(part)}" for part in parts]
        for condition in conditions:
            for part in self._client.walk(_FIELDS, condition):
                yield [
                    Row(
                        record["subject"],
                        _vector(record),
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


class Client:
    """A connection to Milvus: rows of one collection in and out. Threads may share one.

    Raises `OptionError` where pymilvus is not installed, and `DataError` where Milvus cannot be
    reached or is too old; later, `DataError` for whatever Milvus refuses.
    """

    _users = Counter[str]()  # how many clients use each folder of Milvus Lite
    _connecting = threading.Lock()
    dim: int  # of the embeddings, once it is known

    def __init__(self, address: Address) -> None:
        self.address, self._is_closed = address, False
        self._consistency = address.consistency.capitalize()
        try:
            import grpc
            import pymilvus

            if address.file is not None:
                import milvus_lite  # noqa: F401
        except ImportError as error:
            raise OptionError(
                f"{error.name} is missing, which {address} needs: pip install 'arcset[milvus]'"
            ) from None
        # What pymilvus raises, and what it lets through, such as that time is up.
        self._errors: tuple[type[Exception], ...] = (pymilvus.MilvusException, grpc.RpcError)
        for name in ("pymilvus", "milvus_lite", "grpc._server"):  # errors are raised as well
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._client = self._connect(pymilvus.MilvusClient)

    def _connect(self, make: Any) -> Any:
        address = self.address
        options: dict[str, Any] = {"db_name": address.database, "token": address.token}
        if address.file is not None:
            # pymilvus pings every 10 s, and Lite hangs up on whoever pings more than every 300 s.
            options = {"grpc_options": {"grpc.keepalive_time_ms": 2**31 - 1}}
        with self._connecting:
            try:
                if address.file is not None:
                    address.file.parent.mkdir(parents=True, exist_ok=True)
                client = make(address.uri, timeout=_REACHING, **options)
                version = str(client.get_server_version(timeout=_REACHING))
            except OSError as error:
                raise DataError(f"{address} cannot be created: {error.strerror}") from None
            except self._errors as error:
                why = f"is Milvus there, and may you in? ({_one_line(error)})"
                if address.file is not None:
                    why = "does another process have it open, or is it no folder of Milvus Lite?"
                raise DataError(f"{address} cannot be reached: {why}") from None
            number = re.search(r"v?(\d+)\.(\d+)", version)
            if number and (int(number[1]), int(number[2])) < _OLDEST:
                client.close()
                raise DataError(f"{address} is Milvus {version}, expected 2.3 or later")
            if address.file is not None:
                self._users[str(address.file.resolve())] += 1
        return client

    def close(self) -> None:
        """Close the connection; a folder of Milvus Lite is free for other processes then."""
        if self._is_closed:
            return
        self._is_closed = True
        self._client.close()
        if self.address.file is not None:
            with self._connecting:
                folder = str(self.address.file.resolve())
                self._users[folder] -= 1
                if not self._users[folder]:
                    from milvus_lite.server_manager import server_manager_instance

                    server_manager_instance.release_server(self.address.uri)

    def call(self, method: str, *, timeout: float | None = _PATIENCE, **options: Any) -> Any:
        """Call a method of pymilvus' client for the collection."""
        with self._errors_as_data_errors():
            ask = getattr(self._client, method)
            return ask(self.address.collection, timeout=timeout, **options)

    @contextmanager
    def _errors_as_data_errors(self) -> Iterator[None]:
        if self._is_closed:
            raise DataError(f"{self.address} was closed: open it again")
        try:
            yield
        except self._errors as error:
            raise DataError(f"{self.address}: Milvus says: {_one_line(error)}") from None

    # The collection

    def create(self, dim: int, properties: dict[str, str]) -> None:
        """Make the collection whole, or leave none."""
        from pymilvus import DataType, MilvusClient

        if not 2 <= dim <= _LARGEST_DIM:
            raise OptionError(f"dim={dim} is out of range: Milvus takes 2 to {_LARGEST_DIM}")
        text = DataType.VARCHAR
        schema = MilvusClient.create_schema(auto_id=True, enable_dynamic_field=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("subject", text, max_length=_LONGEST_NAME)
        schema.add_field("embedding", DataType.FLOAT_VECTOR, dim=dim)
        schema.add_field("added", DataType.INT64)
        schema.add_field("source", text, max_length=_LONGEST_TEXT)
        schema.add_field("digest", text, max_length=64)
        try:
            self.call("create_collection", schema=schema, properties=properties)
        except DataError:
            if self.call("has_collection"):  # another process was quicker
                return self.prepare()
            raise
        try:
            self.prepare()
        except BaseException:
            self.call("drop_collection")
            raise

    def prepare(self) -> None:
        """Have the collection indexed and in memory, with all that was written until now."""
        from pymilvus import MilvusClient

        if not self.call("list_indexes"):
            kind = INDEXES[self.address.index or "flat"]
            options: dict[str, Any] = {"index_type": kind, "metric_type": "IP"}
            if kind in _BUILDING:  # within one more "params", or Milvus Lite does not see them
                options["params"] = {"params": _BUILDING[kind]}
            index = MilvusClient.prepare_index_params()
            index.add_index("embedding", index_name="embedding", **options)
            self.call("create_index", index_params=index)
        self._index = str(self.call("describe_index", index_name="embedding")["index_type"])
        word = {value: key for key, value in INDEXES.items()}.get(self._index, self._index)
        if self.address.index not in (None, word):
            raise OptionError(
                f"{self.address} has the index {word}, not {self.address.index}: leave that out, or"
                " make a new gallery and import an export of this one"
            )
        self.call("load_collection")
        self.count("Strong")

    # Rows

    def insert(self, rows: _Records) -> Iterator[list[int]]:
        """Add rows and yield their ids, message by message.

        No message is sent a second time: if the first arrived after all, its rows would be there
        twice.
        """
        largest = max((len(row["source"]) for row in rows), default=0)
        step = self._rows_at_once(4 * self.dim + largest)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            yield [*self.call("insert", data=part, timeout=None, retry_times=0)["ids"]]

    def delete(self, ids: Sequence[int]) -> None:
        """Take rows away, and wait until nobody finds them any more."""
        for start in range(0, len(ids), _ROWS):
            self.call("delete", ids=ids[start : start + _ROWS])
        self.count("Strong")  # Milvus 2.3 does not count deleting as writing of the session

    def count(self, level: str | None = None) -> int:
        """How many rows there are."""
        level = level or self._consistency
        (answer,) = self.call(
            "query", filter="", output_fields=["count(*)"], consistency_level=level
        )
        return int(answer["count(*)"])

    def walk(self, fields: Sequence[str], condition: str = "") -> Iterator[_Records]:
        """All rows, or those for which a condition holds, rising by id, some at a time."""
        limit = self._rows_at_once(4 * self.dim if "embedding" in fields else 0)
        options: dict[str, Any] = {
            "filter": condition,
            "output_fields": ["id", *fields],
            "consistency_level": self._consistency,
        }
        rows = self.call("query", limit=limit, **options)
        if len(rows) < limit:
            if rows:
                yield sorted(rows, key=lambda row: int(row["id"]))
            return
        # They may be any of them: an iterator gives all in order. It does not wait for what the
        # session wrote, but the question before did.
        iterator = self.call("query_iterator", batch_size=limit, **options)
        try:
            while True:
                with self._errors_as_data_errors():
                    rows = iterator.next()
                if not rows:
                    return
                yield list(rows)
        finally:
            iterator.close()

    @property
    def most_hits(self) -> int:
        """So many samples come in one answer, of all probes together."""
        return min(_MOST_HITS, 3 * _MESSAGE // (4 * self.dim))

    def nearest(
        self, probes: Embeddings, limit: int, without: Iterable[str] = ()
    ) -> list[_Records]:
        """So many samples nearest to each probe, falling, of all subjects or of all but some."""
        parameters = {
            "HNSW": {"ef": max(2 * limit, 256)},
            "DISKANN": {"search_list": max(2 * limit, 256)},
            "IVF_FLAT": {"nprobe": 64},
        }
        answers = self.call(
            "search",
            data=[*probes],
            limit=limit,
            filter=f"subject not in {_quote_all(without)}" if without else "",
            output_fields=["subject", "embedding"],
            search_params={"metric_type": "IP", "params": parameters.get(self._index, {})},
            consistency_level=self._consistency,
        )
        return [
            [{"distance": hit["distance"], **hit["entity"]} for hit in hits] for hits in answers
        ]

    @staticmethod
    def _rows_at_once(size: int) -> int:
        """How many rows of so many bytes go into one message."""
        return min(_ROWS, max(1, _MESSAGE // max(1, size)))


@contextmanager
def _closed_on_error(client: Client) -> Iterator[Client]:
    try:
        yield client
    except BaseException:
        client.close()
        raise


def _vector(record: _Record) -> Embeddings:
    return np.array(record["embedding"], np.float32)


def _quote_all(names: Iterable[str]) -> str:
    """Names as a list in a condition."""
    return json.dumps([*names], ensure_ascii=False)


def _one_line(error: Exception) -> str:
    """What Milvus says."""
    details = getattr(error, "details", None)  # of gRPC; else a field of pymilvus, or neither
    text = getattr(error, "message", "") or (details() if callable(details) else str(error))
    return " ".join(str(text).split())[:300]
