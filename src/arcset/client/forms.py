"""What a client sends: images as files in a form, names in a path."""

import secrets
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from arcset.errors import InputError
from arcset.recognition.gallery.samples import original
from arcset.recognition.inputs import as_sources

__all__ = ["Field", "File", "encoded", "files", "path_of", "portions", "single"]

#: Images and bytes that go into one request where many are embedded or identified.
_MOST_IMAGES, _MOST_BYTES = 16, 6 << 20

File = tuple[str, bytes]  # what it is called, and its content
Field = tuple[str, File | str | float | int | None]


def files(images: Any) -> list[File]:
    """Images as files to be sent: of paths only the last part is told."""
    found = []
    for source in as_sources(images):
        made = original(source)
        name = PurePath(made.source).name if made.source is not None else ""
        found.append((name, made.content))
    return found


def single(image: Any) -> File:
    """One image as a file."""
    return files([image])[0]


def portions(images: Any) -> Iterator[list[File]]:
    """Images in portions that fit into a request each, read as they are sent."""
    some: list[File] = []
    size = 0
    for source in as_sources(images):
        made = single(source)
        if some and (len(some) == _MOST_IMAGES or size + len(made[1]) > _MOST_BYTES):
            yield some
            some, size = [], 0
        some.append(made)
        size += len(made[1])
    yield some


def encoded(form: Sequence[Field]) -> tuple[str, bytes]:
    """Content type and body of a form, fields without a value left out."""
    mark = f"arcset-{secrets.token_hex(16)}"
    parts = []
    for name, value in form:
        if value is None:
            continue
        file = ""
        if isinstance(value, tuple):
            called = value[0].translate({10: "%0A", 13: "%0D", 34: "%22"})  # as browsers do
            file, content = f'; filename="{called or "image"}"', value[1]
        else:
            content = _bytes(str(value))
        head = f'--{mark}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
        parts += [head.encode("utf-8", "replace"), content, b"\r\n"]
    return f"multipart/form-data; boundary={mark}", b"".join([*parts, f"--{mark}--\r\n".encode()])


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InputError(f"the text {text!r:.50} cannot be sent as UTF-8") from None


def path_of(*parts: str) -> str:
    """Below /v1, each part as it is, whatever characters it has."""
    return "/v1/" + "/".join(quote(_bytes(part), safe="") for part in parts)
