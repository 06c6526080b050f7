"""Where a gallery is in Milvus: `milvus://host:port/collection`, and what may follow that."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

from arcset.errors import OptionError

#: The environment variable with user and password, or an API key.
TOKEN = "ARCSET_MILVUS_TOKEN"

#: What an address may name as its index, and what Milvus calls that.
INDEXES = {"flat": "FLAT", "hnsw": "HNSW", "ivf_flat": "IVF_FLAT", "diskann": "DISKANN"}

_OPTIONS = {
    "secure": ("false", "true"),
    "index": tuple(INDEXES),
    "consistency": ("strong", "session", "bounded", "eventually"),
}
_COLLECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")  # as Milvus allows


@dataclass(frozen=True)
class Address:
    """A collection in Milvus, and how to reach it.

    - `milvus://HOST[:PORT]/[DATABASE/]COLLECTION` is a server; the port is 19530 if left out.
      `milvus://USER:PASSWORD@HOST/…` says who asks, as does the environment variable
      ARCSET_MILVUS_TOKEN (`USER:PASSWORD`, or an API key), which no list of processes shows.
    - `milvus:FOLDER/FILE.db/COLLECTION`, or `milvus:///…` from the root, is a folder of Milvus
      Lite on this machine, which one process at a time can open.

    Options follow a question mark, as `?secure=true&index=hnsw`:

    - `secure`: whether the connection is encrypted (TLS); no, if left out.
    - `index`: `flat` (exact, if left out), `hnsw`, `ivf_flat` or `diskann`; of a new collection.
    - `consistency`: `strong`, `session` (if left out), `bounded` or `eventually`.

    Raises `OptionError` for anything else.

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
    consistency: str = "session"

    @classmethod
    def parse(cls, text: object) -> Self:
        """From its text; an address stays as it is."""
        if isinstance(text, cls):
            return text
        public = re.sub("//.*@", "//", str(text), flags=re.DOTALL)  # without the password
        wrong = OptionError(
            f"{public!r} is no address in Milvus, expected milvus://host:port/collection, or"
            " milvus:folder/file.db/collection; a collection is named by letters, digits and"
            " underscores, and in a password / is written %2F, ? is %3F, # is %23 and % is %25"
        )
        try:
            parts = urlsplit(str(text))
            host, port = parts.hostname or "", parts.port or 19530
        except ValueError:
            raise wrong from None
        *folders, collection = unquote(parts.path).split("/")
        file = None if parts.netloc else Path("/".join(folders))
        database = "/".join(filter(None, folders))
        fits = file.suffix == ".db" if file is not None else bool(host) and "/" not in database
        is_torn = parts.fragment or (parts.netloc and "@" in parts.path + parts.query)
        if parts.scheme != "milvus" or not fits or is_torn or not _COLLECTION.fullmatch(collection):
            raise wrong
        options = _read_options(parts.query, lite=file is not None)
        index, consistency = options.get("index"), options.get("consistency", "session")
        if file is not None:
            return cls(collection, str(file), file, index=index, consistency=consistency)
        scheme = "https" if options.get("secure") == "true" else "http"
        uri = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
        user, _, password = parts.netloc.rpartition("@")[0].partition(":")
        token = f"{unquote(user)}:{unquote(password)}" if user else os.environ.get(TOKEN, "")
        return cls(collection, uri, None, database, token, index, consistency)

    @property
    def name(self) -> str:
        """The collection."""
        return self.collection

    stem = name

    def __str__(self) -> str:
        """The address without password and options."""
        if self.file is not None:
            slashes = "//" if self.file.is_absolute() else ""
            return f"milvus:{slashes}{self.file.as_posix()}/{self.collection}"
        database = f"{self.database}/" if self.database else ""
        return f"milvus://{self.uri.partition('//')[2]}/{database}{self.collection}"


def _read_options(query: str, *, lite: bool) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in options.items():
        if value not in _OPTIONS.get(name, ()):
            known = "; ".join(f"{key}: {', '.join(words)}" for key, words in _OPTIONS.items())
            raise OptionError(f"?{name}={value!r} is unknown in an address, expected {known}")
        if lite and (name == "secure" or value == "diskann"):
            raise OptionError(f"?{name}={value} is for servers, and Milvus Lite has none of it")
    return options
