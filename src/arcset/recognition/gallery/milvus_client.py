"""A connection to Milvus: the rows of one collection in and out."""

import json
import logging
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from arcset.errors import DataError, OptionError
from arcset.recognition.gallery.address import INDEXES, Address
from arcset.recognition.recognizer import Embeddings

__all__ = ["LONGEST_TEXT", "Client", "Record", "Records", "padded", "quote_all"]

Record = Mapping[str, Any]
Records = list[Record]

#: Bytes that Milvus keeps of a text.
LONGEST_TEXT = 65_535

_OLDEST = (2, 3)  # version of Milvus
_LARGEST_DIM = 32_768
_LONGEST_NAME = 1_024  # bytes
_MOST_HITS = 16_384  # samples that Milvus finds for one probe
_MESSAGE = 16 << 20  # bytes of rows in one message, for which Milvus has 64 MB
_ROWS = 4_096  # in one message, if they are small
_NAMES = 1_000  # in one condition

_PATIENCE = 60.0  # seconds for one question
_REACHING = 10.0  # seconds until a server answers at all

_BUILDING = {"HNSW": {"M": 32, "efConstruction": 360}, "IVF_FLAT": {"nlist": 1024}}


def quote_all(names: Iterable[str]) -> str:
    """Names as a list in a condition."""
    return json.dumps([*names], ensure_ascii=False)


def padded(vector: Embeddings) -> Embeddings:
    """As Milvus stores it, which has no vectors of one number."""
    return vector if len(vector) > 1 else np.append(vector, np.float32(0))


class Client:
    """A connection to Milvus: rows of one collection in and out. Threads may share one.

    Raises `OptionError` where pymilvus is not installed, and `DataError` where Milvus cannot be
    reached or is too old; later, `DataError` for whatever Milvus refuses.
    """

    _users = Counter[str]()  # how many clients use each folder of Milvus Lite
    _connecting = threading.Lock()
    dim: int  # of the embeddings, once it is known

    def __init__(self, address: Address) -> None:
        self.address, self._closed = address, threading.Event()
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
                raise DataError(f"{address} cannot be made: {error.strerror}") from None
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
        if self._closed.is_set():
            return
        self._closed.set()
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
        if self._closed.is_set():
            raise DataError(f"{self.address} was closed: open it again")
        try:
            yield
        except self._errors as error:
            raise DataError(f"{self.address}: Milvus says: {_one_line(error)}") from None

    # The collection

    def create(self, dim: int, properties: dict[str, str]) -> None:
        """Make the collection whole, or leave none."""
        from pymilvus import DataType, MilvusClient

        if dim > _LARGEST_DIM:
            raise OptionError(f"dim={dim} is out of range: Milvus takes up to {_LARGEST_DIM}")
        text = DataType.VARCHAR
        schema = MilvusClient.create_schema(auto_id=True, enable_dynamic_field=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("subject", text, max_length=_LONGEST_NAME)
        schema.add_field("embedding", DataType.FLOAT_VECTOR, dim=max(2, dim))
        schema.add_field("added", DataType.INT64)
        schema.add_field("source", text, max_length=LONGEST_TEXT)
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

    def insert(self, rows: Records) -> Iterator[list[int]]:
        """Add rows and yield their ids, message by message.

        No message is sent a second time: if the first arrived after all, its rows would be there
        twice.
        """
        largest = max((len(row["source"]) for row in rows), default=0)
        step = self._rows_at_once(4 * self.dim + largest)
        for start in range(0, len(rows), step):
            part = [
                {key: value for key, value in row.items() if key != "id"}
                for row in rows[start : start + step]
            ]
            yield [*self.call("insert", data=part, timeout=None, retry_times=0)["ids"]]

    def delete(self, ids: Sequence[int]) -> None:
        """Take rows away, and wait until nobody finds them any more."""
        for start in range(0, len(ids), _ROWS):
            self.call("delete", ids=[int(number) for number in ids[start : start + _ROWS]])
        self.count("Strong")  # Milvus 2.3 does not count deleting as writing of the session

    def count(self, level: str | None = None) -> int:
        """How many rows there are."""
        (found,) = self.call(
            "query",
            filter="",
            output_fields=["count(*)"],
            consistency_level=level or self._consistency,
        )
        return int(found["count(*)"])

    def walk(
        self, fields: Sequence[str], condition: str = "", level: str | None = None
    ) -> Iterator[Records]:
        """All rows, or those for which a condition holds, rising by id, some at a time."""
        limit = self._rows_at_once(4 * self.dim if "embedding" in fields else 0)
        options: dict[str, Any] = {
            "filter": condition,
            "output_fields": ["id", *fields],
            "consistency_level": level or self._consistency,
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

    def nearest(self, probes: Embeddings, limit: int, without: Iterable[str] = ()) -> list[Records]:
        """So many samples nearest to each probe, falling, of all subjects or of all but some."""
        parameters = {
            "HNSW": {"ef": max(2 * limit, 256)},
            "DISKANN": {"search_list": max(2 * limit, 256)},
            "IVF_FLAT": {"nprobe": 64},
        }
        found = self.call(
            "search",
            data=[padded(probe) for probe in probes],
            limit=limit,
            filter=f"subject not in {quote_all(without)}" if without else "",
            output_fields=["subject", "embedding"],
            search_params={"metric_type": "IP", "params": parameters.get(self._index, {})},
            consistency_level=self._consistency,
        )
        return [[{"distance": hit["distance"], **hit["entity"]} for hit in hits] for hits in found]

    @staticmethod
    def _rows_at_once(size: int) -> int:
        """How many rows of so many bytes go into one message."""
        return min(_ROWS, max(1, _MESSAGE // max(1, size)))


def _one_line(error: Exception) -> str:
    """What Milvus says."""
    details = getattr(error, "details", None)  # of gRPC; else a field of pymilvus, or neither
    text = getattr(error, "message", "") or (details() if callable(details) else str(error))
    return " ".join(str(text).split())[:300]
