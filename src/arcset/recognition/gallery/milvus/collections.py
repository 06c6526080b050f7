"""The three collections that a gallery has in Milvus.

`NAME` holds the samples: number, number of the subject, embedding, when it was added, source and
digest. `NAME_subjects` holds a row for each subject, see `subjects`. `NAME_about` holds the
settings, by their names, and who has which numbers, see `numbers`. Milvus has no collection without
a vector, so the latter two have one that means nothing.
"""

from typing import Any

from arcset.errors import DataError, OptionError
from arcset.recognition.gallery.milvus.address import INDEXES
from arcset.recognition.gallery.milvus.connection import Connection

__all__ = ["LONGEST_TEXT", "NOTHING", "Collections", "stored_dim"]

LONGEST_TEXT = 65_535  # bytes that Milvus keeps of a text
LARGEST_DIM = 32_768

#: The vector that means nothing.
NOTHING = [0.0, 0.0]

_BUILDING = {"HNSW": {"M": 32, "efConstruction": 360}, "IVF_FLAT": {"nlist": 1024}}


def stored_dim(dim: int) -> int:
    """Of the vectors in Milvus, which has none of one number: these get a zero."""
    return max(2, dim)


class Collections:
    """The collections of one gallery: whether they are there, and making them.

    Attributes:
        samples, subjects, about: their names.
        index: of the embeddings, as an address calls it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        name = connection.address.collection
        self.samples, self.subjects, self.about = name, f"{name}_subjects", f"{name}_about"
        self.index = connection.address.index or "flat"

    def __iter__(self) -> Any:
        return iter((self.samples, self.subjects, self.about))

    def exist(self) -> bool:
        """Whether there are all of them: the last is made last, and its index thereafter."""
        if not self._connection.call("has_collection", self.about):
            return False
        return "nothing" in self._connection.call("list_indexes", self.about)

    def drop(self) -> None:
        """Take all of them away; what says that they are a gallery first."""
        for name in (self.about, self.subjects, self.samples):
            self._connection.call("drop_collection", name)

    def make(self, dim: int) -> None:
        """Make those that are not there. Raises `OptionError` for what Milvus cannot hold."""
        if dim > LARGEST_DIM:
            raise OptionError(f"dim={dim} is out of range: Milvus takes up to {LARGEST_DIM}")
        kind = INDEXES[self.index]
        if kind == "DISKANN" and self._lite():
            raise OptionError(
                f"{self._connection.address}: Milvus Lite has no diskann, which is for servers:"
                " name another index"
            )
        for name, fields in self._fields().items():
            if self._connection.call("has_collection", name):
                self._check(name, fields)
        from pymilvus import DataType

        number, text = DataType.INT64, DataType.VARCHAR
        key = {"is_primary": True}
        self._make(
            self.samples,
            [
                ("id", number, key),
                ("subject", number, {}),
                ("embedding", DataType.FLOAT_VECTOR, {"dim": stored_dim(dim)}),
                ("added", number, {}),
                ("source", text, {"max_length": LONGEST_TEXT, "nullable": True}),
                ("digest", text, {"max_length": 64, "nullable": True}),
            ],
            {"embedding": kind, "subject": "INVERTED"},
        )
        nothing = ("nothing", DataType.FLOAT_VECTOR, {"dim": len(NOTHING)})
        self._make(
            self.subjects,
            [
                ("id", number, key),
                ("key", number, {}),
                ("name", text, {"max_length": 1024}),
                ("state", number, {}),
                ("added", number, {}),
                ("changed", number, {}),
                nothing,
            ],
            {"nothing": "FLAT", "key": "INVERTED", "state": "INVERTED"},
        )
        self._make(
            self.about,
            [
                ("key", text, {"max_length": 128, **key}),
                ("value", text, {"max_length": LONGEST_TEXT}),
                nothing,
            ],
            {"nothing": "FLAT"},
        )

    def _make(
        self, name: str, fields: list[tuple[str, Any, dict[str, Any]]], indexes: dict[str, str]
    ) -> None:
        from pymilvus import MilvusClient

        connection = self._connection
        if not connection.call("has_collection", name):
            schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
            for field, kind, options in fields:
                schema.add_field(field, kind, **options)
            try:
                connection.call(
                    "create_collection", name, schema=schema, consistency_level="Strong"
                )
            except DataError:
                if not connection.call("has_collection", name):  # or another process was quicker
                    raise
        there = set(connection.call("list_indexes", name))
        for field, kind in indexes.items():
            if field in there:
                continue
            parameters = MilvusClient.prepare_index_params()
            chosen: dict[str, Any] = {} if kind == "INVERTED" else {"metric_type": "IP"}
            if kind in _BUILDING:  # within one more "params", or Milvus Lite does not see them
                chosen["params"] = {"params": _BUILDING[kind]}
            parameters.add_index(field, index_type=kind, index_name=field, **chosen)
            try:
                connection.call("create_index", name, parameters, sync=False)
            except DataError:
                if field not in connection.call("list_indexes", name):
                    raise

    def open(self) -> int:
        """Make them ready to be asked; the dimension of their vectors.

        Raises `DataError` for collections that are no gallery's, and `OptionError` where the
        address names another index than there is.
        """
        connection = self._connection
        for name in self:
            if not connection.call("has_collection", name):
                raise DataError(f"{connection.address} is damaged: there is no collection {name}")
        found, *_ = [self._check(name, fields) for name, fields in self._fields().items()]
        kind = str(connection.call("describe_index", self.samples, "embedding")["index_type"])
        there = {value: word for word, value in INDEXES.items()}.get(kind, kind)
        if connection.address.index not in (None, there):
            raise OptionError(
                f"{connection.address} has the index {there}, not {connection.address.index}: leave"
                " that out, or make a new gallery and import an export of this one"
            )
        self.index = there
        for name in self:
            connection.call("load_collection", name)
        (vector,) = [field for field in found["fields"] if field["name"] == "embedding"]
        return int(vector["params"]["dim"])

    def _fields(self) -> dict[str, set[str]]:
        """What each of them has, so that it can be told from others'."""
        return {
            self.samples: {"id", "subject", "embedding", "added"},
            self.subjects: {"id", "key", "name", "state"},
            self.about: {"key", "value"},
        }

    def _check(self, name: str, expected: set[str]) -> Any:
        found = self._connection.call("describe_collection", name)
        if not expected <= {field["name"] for field in found["fields"]}:
            raise DataError(
                f"{self._connection.address} is no gallery: the collection {name} was made by"
                " somebody else"
            )
        return found

    def _lite(self) -> bool:
        version = str(self._connection.call("get_server_version"))
        return "lite" in version.lower()
