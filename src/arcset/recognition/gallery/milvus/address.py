"""Where a gallery is in Milvus."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from arcset.errors import OptionError

__all__ = ["CONSISTENCY", "INDEXES", "TOKEN", "Address", "is_address"]

#: What the environment variable with user and password, or an API key, is called.
TOKEN = "ARCSET_MILVUS_TOKEN"

#: What an address may name as its index, and what Milvus calls that.
INDEXES = {"flat": "FLAT", "hnsw": "HNSW", "ivf_flat": "IVF_FLAT", "diskann": "DISKANN"}

#: What an address may name as its consistency, and what Milvus calls that.
CONSISTENCY = {
    "strong": "Strong",
    "session": "Session",
    "bounded": "Bounded",
    "eventually": "Eventually",
}

_PORT = 19530
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")  # of a collection, as Milvus allows
_FORM = "milvus://host:port/collection, or milvus:folder/file.db/collection"


def is_address(path: object) -> bool:
    """Whether that is an address, or meant as one, and not as a file.

    >>> is_address("milvus://localhost/people"), is_address("people.db")
    (True, False)
    """
    return isinstance(path, Address) or (isinstance(path, str) and path.startswith("milvus:"))


@dataclass(frozen=True)
class Address:
    """A collection in Milvus, and how to come there.

    - `milvus://HOST[:PORT]/[DATABASE/]COLLECTION` is a server; the port is 19530 if left out.
      `milvus://USER:PASSWORD@HOST/…` says who asks, as does the environment variable
      ARCSET_MILVUS_TOKEN (`USER:PASSWORD`, or an API key), which no list of processes shows.
    - `milvus:FOLDER/FILE.db/COLLECTION`, or `milvus:///…` from the root on, is a folder of Milvus
      Lite on this machine, which one process at a time can open.

    Options follow a question mark, as `?secure=true&index=hnsw`:

    - `secure`: whether the connection is encrypted (TLS); no, if left out.
    - `index`: `flat` (exact, if left out), `hnsw`, `ivf_flat` or `diskann`; of a new collection.
    - `consistency`: `strong` (if left out), `session`, `bounded` or `eventually`.

    Raises `OptionError` for whatever else.

        >>> address = Address.parse("milvus://anna:secret@db.example/people?index=hnsw")
        >>> print(address, address.uri, address.index)
        milvus://db.example:19530/people http://db.example:19530 hnsw
        >>> Address.parse("milvus:data/faces.db/people").file
        PosixPath('data/faces.db')
    """

    collection: str
    uri: str
    file: Path | None = None
    database: str = ""
    token: str = field(default="", repr=False)
    index: str | None = None
    consistency: str = "strong"

    @classmethod
    def parse(cls, text: object) -> Self:
        """From its text; an address stays as it is."""
        if isinstance(text, cls):
            return text
        shown = re.sub("//.*@", "//", str(text), flags=re.DOTALL)  # without password
        try:
            parts = urlsplit(str(text))
        except ValueError:
            raise OptionError(f"{shown!r} is no address in Milvus, expected {_FORM}") from None
        if parts.netloc and "@" in f"{parts.path}{parts.query}{parts.fragment}":
            raise OptionError(
                f"{shown!r} is no address in Milvus: in a password, write %2F for /, %3F for ?,"
                " %23 for # and %25 for %"
            )
        if parts.scheme != "milvus" or parts.fragment:
            raise OptionError(f"{shown!r} is no address in Milvus, expected {_FORM}")
        options = _options(parts)
        *before, collection = unquote(parts.path).split("/")
        if not _NAME.fullmatch(collection):
            raise OptionError(
                f"{shown} ends in {collection!r}, expected the name of a collection: letters,"
                " digits and underscores"
            )
        index, consistency = options.get("index"), options.get("consistency", "strong")
        if not parts.netloc:
            file = Path("/".join(before))
            if file.suffix != ".db" or "secure" in options:
                raise OptionError(f"{shown} names no server and no file.db, expected {_FORM}")
            return cls(collection, str(file), file, index=index, consistency=consistency)
        database = [word for word in before if word]
        try:
            host, port = parts.hostname, parts.port or _PORT
        except ValueError:
            host = None
        if not host or len(database) > 1:
            raise OptionError(f"{shown} is no address in Milvus, expected {_FORM}")
        scheme = "https" if options.get("secure") == "true" else "http"
        shown_host = f"[{host}]" if ":" in host else host
        user, _, password = parts.netloc.rpartition("@")[0].partition(":")
        token = f"{unquote(user)}:{unquote(password)}" if user else os.environ.get(TOKEN, "")
        return cls(
            collection,
            f"{scheme}://{shown_host}:{port}",
            database=database[0] if database else "",
            token=token,
            index=index,
            consistency=consistency,
        )

    @property
    def name(self) -> str:
        """The collection."""
        return self.collection

    stem = name

    def __str__(self) -> str:
        """The address without what nobody should read."""
        if self.file is not None:
            slashes = "//" if self.file.is_absolute() else ""
            return f"milvus:{slashes}{self.file.as_posix()}/{self.collection}"
        database = f"{self.database}/" if self.database else ""
        return f"milvus://{self.uri.partition('//')[2]}/{database}{self.collection}"


def _options(parts: SplitResult) -> dict[str, str]:
    known = {
        "secure": ("true", "false"),
        "index": tuple(INDEXES),
        "consistency": tuple(CONSISTENCY),
    }
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name, value in options.items():
        if name not in known:
            raise OptionError(f"?{name}= is unknown in an address, expected {', '.join(known)}")
        if value not in known[name]:
            raise OptionError(
                f"?{name}={value!r} is unknown in an address, expected {', '.join(known[name])}"
            )
    return options
