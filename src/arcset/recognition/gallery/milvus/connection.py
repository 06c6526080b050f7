"""A connection to Milvus, and its errors in sentences."""

import copy
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from arcset.errors import DataError, OptionError
from arcset.recognition.gallery.milvus.address import CONSISTENCY, Address

__all__ = ["LONGEST_ANSWER", "Connection", "Record"]

#: As many rows as Milvus gives at once.
LONGEST_ANSWER = 16_384

_PATIENCE = 60.0  # seconds for one question
_REACHING = 10.0  # seconds until somebody answers at all
_PART = 4_096  # rows that are read at a time, or written
_MESSAGE = 16 << 20  # bytes of rows in one message, for which Milvus has 64 MB

Record = dict[str, Any]

_opened: Counter[str] = Counter()  # how many connections use each folder of Milvus Lite
_opening = threading.Lock()


class Connection:
    """Rows in and out of Milvus, by collection. Threads may share one.

    Raises `OptionError` where pymilvus is not installed, and `DataError` where Milvus cannot be
    reached; later, `DataError` for whatever Milvus refuses.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._consistency = CONSISTENCY[address.consistency]
        self._process, self._closed = os.getpid(), threading.Event()
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
        for name in ("pymilvus", "milvus_lite"):  # what they log comes as an error as well
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._client = self._connect(pymilvus.MilvusClient)

    def _connect(self, make: Callable[..., Any]) -> Any:
        address = self.address
        options: Record = {"timeout": _REACHING}
        if address.database:
            options["db_name"] = address.database
        if address.token:
            options["token"] = address.token
        with _opening:
            try:
                if address.file is not None:
                    address.file.parent.mkdir(parents=True, exist_ok=True)
                client = make(address.uri, **options)
            except OSError as error:
                raise DataError(f"{address} cannot be made: {error.strerror}") from None
            except self._errors as error:
                if address.file is None:
                    why = f"is Milvus there, and may you in? ({_said(error)})"
                else:
                    why = "does another process have it open, or is it of another kind?"
                raise DataError(f"{address} cannot be reached: {why}") from None
            if address.file is not None:
                _opened[_place(address)] += 1
        return client

    def strongly(self) -> "Connection":
        """The same connection, for questions that have to see all that anybody wrote until now."""
        other = copy.copy(self)
        other._consistency = CONSISTENCY["strong"]
        return other

    def close(self) -> None:
        """Let go; a folder of Milvus Lite is free for other processes then."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._process != os.getpid():
            return
        self._client.close()
        if self.address.file is None:
            return
        with _opening:
            place = _place(self.address)
            _opened[place] -= 1
            if not _opened[place]:
                from milvus_lite.server_manager import server_manager_instance

                server_manager_instance.release_server(place)

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Ask the client, and raise what it raises as `DataError`."""
        with self.explained():
            return getattr(self._client, method)(*args, timeout=_PATIENCE, **options)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Whatever Milvus complains about in the block, as an error that says it in a sentence."""
        closed = self._closed.is_set()
        if closed or self._process != os.getpid():
            what = "was closed" if closed else "was opened by the process before this one"
            raise DataError(f"{self.address} {what}: open it again")
        try:
            yield
        except self._errors as error:
            raise DataError(f"{self.address}: Milvus says: {_said(error)}") from None

    # Rows

    def insert(self, collection: str, rows: Sequence[Record], size: int = 0) -> None:
        """Add rows, of keys that no row has, and of about so many bytes each."""
        self._write("insert", collection, rows, size)

    def upsert(self, collection: str, rows: Sequence[Record], size: int = 0) -> None:
        """Add rows, or put them in the place of those of the same key."""
        self._write("upsert", collection, rows, size)

    def _write(self, method: str, collection: str, rows: Sequence[Record], size: int) -> None:
        step = _rows_of(size)
        for start in range(0, len(rows), step):
            self.call(method, collection, list(rows[start : start + step]))

    def delete(self, collection: str, keys: Sequence[int] | Sequence[str]) -> None:
        """Take away the rows of these keys, as far as they are there."""
        for start in range(0, len(keys), _PART):
            self.call("delete", collection, ids=list(keys[start : start + _PART]))

    def query(
        self, collection: str, condition: str, fields: Sequence[str], size: int = 0
    ) -> list[Record]:
        """All rows for which a condition holds, of about so many bytes each."""
        most = _rows_of(size)
        found = self.call(
            "query",
            collection,
            filter=condition,
            output_fields=list(fields),
            limit=most,
            consistency_level=self._consistency,
        )
        if len(found) < most:
            return list(found)
        return [row for part in self.parts(collection, condition, fields, size) for row in part]

    def parts(
        self, collection: str, condition: str, fields: Sequence[str], size: int = 0
    ) -> Iterator[list[Record]]:
        """All rows for which a condition holds, rising by their keys, some at a time."""
        walk = self.call(
            "query_iterator",
            collection,
            batch_size=_rows_of(size),
            filter=condition,
            output_fields=list(fields),
            consistency_level=self._consistency,
        )
        try:
            while True:
                with self.explained():
                    part = walk.next()
                if not part:
                    return
                yield list(part)
        finally:
            walk.close()

    def count(self, collection: str, condition: str = "") -> int:
        """How many rows there are for which a condition holds."""
        found = self.call(
            "query",
            collection,
            filter=condition,
            output_fields=["count(*)"],
            consistency_level=self._consistency,
        )
        return int(found[0]["count(*)"])

    def search(
        self, collection: str, probes: Any, limit: int, fields: Sequence[str], parameters: Record
    ) -> list[list[Record]]:
        """The rows nearest to each probe, falling: their `distance`, and these fields."""
        found = self.call(
            "search",
            collection,
            data=probes,
            limit=limit,
            output_fields=list(fields),
            search_params={"metric_type": "IP", "params": parameters},
            consistency_level=self._consistency,
        )
        return [[{"distance": hit["distance"], **hit["entity"]} for hit in row] for row in found]


def _rows_of(size: int) -> int:
    """How many rows of so many bytes go into one message."""
    return min(_PART, max(1, _MESSAGE // max(1, size)))


def _place(address: Address) -> str:
    """As Milvus Lite names a folder."""
    return os.path.abspath(address.uri)  # noqa: PTH100


def _said(error: Exception) -> str:
    """What Milvus says, in one line."""
    details = getattr(error, "details", None)  # of gRPC; else a field of pymilvus, or neither
    text = getattr(error, "message", "") or (details() if callable(details) else str(error))
    return " ".join(str(text).split())[:300]
