"""What a request carries: images as files of a form, or in JSON as base64, and fields beside them.

Everything stays in memory, whose size the limit of the body bounds. A URL or a path is never
followed: images are bytes.
"""

import binascii
import json
import math
from base64 import b64decode
from collections.abc import Collection
from typing import Any

from fastapi import Request
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from arcset.service.errors import RefusalError
from arcset.service.service import Service

__all__ = [
    "Image",
    "Upload",
    "last_part",
    "number",
    "read_object",
    "read_upload",
    "service_of",
    "text_of",
    "whole",
]

_IMAGE_FIELDS = frozenset({"image", "images", "a", "b"})
_TEXT_BYTES = 4096  # of a field that is no image
_OTHER_PARTS = 16
_LONG = 1 << 18  # bytes of JSON from which on it is parsed in a thread
_OBJECT_BYTES = 16 << 10  # of JSON without images
_OTHER_ELEMENTS = 1 << 10  # of JSON beside its images: names may be full of commas


class Image:
    """The bytes of a file, and what it was called if anybody said."""

    __slots__ = ("content", "name")

    def __init__(self, content: bytes, name: str | None = None) -> None:
        self.content, self.name = content, name


class Upload:
    """Images and texts by the names of their fields; texts of JSON are any plain values."""

    def __init__(self) -> None:
        self.files: dict[str, list[Image]] = {}
        self.fields: dict[str, Any] = {}

    def check_fields(self, known: Collection[str]) -> None:
        """Raises `RefusalError` for a field that the route does not take, and for a long text."""
        for name in (*self.files, *self.fields):
            _check_field(name, known)
        for name, value in self.fields.items():
            if isinstance(value, str) and len(value) > _TEXT_BYTES:
                raise _too_long(name)

    def images(self, most: int) -> list[Image]:
        """All of `image` and `images`, 1 to `most`."""
        found = self.files.get("image", []) + self.files.get("images", [])
        if not found:
            raise RefusalError("bad_request", "There is no image: send image files as `image`.")
        if len(found) > most:
            raise RefusalError("too_many_images", f"One request takes at most {most} images.")
        return found

    def single(self, field: str) -> Image:
        """The one image of a field."""
        found = self.files.get(field, [])
        if len(found) != 1:
            raise RefusalError("bad_request", f"One image is expected in the field `{field}`.")
        return found[0]


def service_of(request: Request) -> Service:
    """What the routes share."""
    service: Service = request.app.state.service
    return service


def query_of(request: Request, *known: str) -> dict[str, str]:
    """The values of a query; raises `RefusalError` for a name that is unknown, or given twice."""
    if not request.scope["query_string"]:
        return {}
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known:
            listed = ", ".join(known)
            raise RefusalError(
                "bad_request", f"The parameter {name[:40]!r} is unknown; expected: {listed}."
            )
        if name in found:
            raise RefusalError("bad_request", f"The parameter `{name}` is given twice.")
        found[name] = value
    return found


async def read_upload(request: Request, known: Collection[str]) -> Upload:
    """The body of a request, with no other fields than the known ones.

    Raises `RefusalError`: bad_request, unsupported_media_type, not_an_image for what is no base64,
    too_many_images, and what the limits of the body raise.
    """
    service = service_of(request)
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind not in (b"multipart/form-data", b"application/json"):
        raise RefusalError(
            "unsupported_media_type", "Send a form (multipart/form-data), or application/json."
        )
    if kind == b"multipart/form-data":
        form = _Form(options.get(b"boundary", b""), service.settings.max_images, known)
        async for chunk in request.stream():  # no second copy of the whole body
            form.feed(chunk)
        upload = form.end()
    else:
        body, most = await request.body(), service.settings.max_images
        args = (body, 2 * most + _OTHER_ELEMENTS)  # a data: URL has a comma of its own
        upload = _json(*args) if len(body) < _LONG else await service.run(_json, *args)
    upload.check_fields(known)
    return upload


class _Form:
    """Gathers the parts of a form while it arrives.

    boundary: what separates the parts. most: images. known: the fields that the route takes.
    """

    def __init__(self, boundary: bytes, most: int, known: Collection[str]) -> None:
        if not 1 <= len(boundary) <= 200:
            raise RefusalError("bad_request", "The form does not say what separates its parts.")
        self.upload, self.most, self.known = Upload(), most, known
        self.count, self.size, self.ended = 0, 0, False
        self.parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._part_data,
                "on_part_end": self._part_end,
                "on_end": self._end,
            },
        )

    def feed(self, chunk: bytes) -> None:
        """The next piece of the body."""
        try:
            self.parser.write(chunk)
        except MultipartParseError:
            raise RefusalError("bad_request", "The form cannot be read.") from None

    def end(self) -> Upload:
        """All parts, once the body is over."""
        if not self.ended:
            raise RefusalError("bad_request", "The form ends before its last part does.")
        return self.upload

    def _begin(self) -> None:
        self.count += 1
        if self.count > self.most + _OTHER_PARTS:
            raise RefusalError("too_many_images", f"One request takes at most {self.most} images.")
        self.headers: dict[bytes, bytes] = {}
        self.field = self.value = b""
        self.data: list[bytes] = []
        self.size = 0

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self.field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self.value += data[start:end]

    def _header_end(self) -> None:
        self.headers[self.field.lower()] = self.value
        self.field = self.value = b""

    def _headers_finished(self) -> None:
        _, self.options = parse_options_header(self.headers.get(b"content-disposition", b""))
        self.name = self.options.get(b"name", b"").decode("utf-8", "replace")
        _check_field(self.name, self.known)  # before its content, which may be long

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        self.size += end - start
        if self.size > _TEXT_BYTES and self.name not in _IMAGE_FIELDS:
            raise _too_long(self.name)
        self.data.append(data[start:end])

    def _part_end(self) -> None:
        name = self.name
        content = self.data[0] if len(self.data) == 1 else b"".join(self.data)
        self.data = []
        if name in _IMAGE_FIELDS:
            said = self.options.get(b"filename")
            called = None if said is None else last_part(said.decode("utf-8", "replace"))
            self.upload.files.setdefault(name, []).append(Image(content, called))
            return
        if name in self.upload.fields:
            raise RefusalError("bad_request", f"The field {name[:40]!r} is given twice.")
        try:
            self.upload.fields[name] = content.decode()
        except UnicodeDecodeError:
            message = f"The field {name[:40]!r} is no UTF-8 text."
            raise RefusalError("bad_request", message) from None

    def _end(self) -> None:
        self.ended = True


def last_part(said: str) -> str | None:
    """The last part of a path of any system, of characters that can be shown; None for nothing.

    >>> last_part("C:\\\\photos\\\\anna.png"), last_part("/home/photos/anna.png"), last_part("")
    ('anna.png', 'anna.png', None)
    """
    last = said.replace("\\", "/").rsplit("/", 1)[-1]
    shown = "".join(character for character in last if character.isprintable())[:200].strip()
    return shown or None


async def read_object(request: Request) -> dict[str, Any]:
    """The body of a request without images: a small JSON object.

    Raises `RefusalError`: bad_request, body_too_large.
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _OBJECT_BYTES:
            message = f"This request has at most {_OBJECT_BYTES:,} bytes."
            raise RefusalError("body_too_large", message)
    return _object(body, _OTHER_ELEMENTS)


def _json(body: bytes, most: int) -> Upload:
    upload = Upload()
    for name, value in _object(body, most).items():
        if name == "images":
            if not isinstance(value, list):
                raise RefusalError("bad_request", "`images` is a list of images as base64.")
            upload.files[name] = [Image(_base64(text)) for text in value]
        elif name in _IMAGE_FIELDS:
            upload.files[name] = [Image(_base64(value))]
        else:
            upload.fields[name] = value
    return upload


def _object(body: bytes, most: int) -> dict[str, Any]:
    """A JSON object; raises `RefusalError` for anything else, and for names given twice.

    most: elements that it may have. They are counted before it is parsed, as millions of them take
    seconds, in which no other thread runs; in strings these characters count as well.
    """
    if body.count(b",") + body.count(b"[") + body.count(b"{") > most:
        raise RefusalError("bad_request", "The JSON has more elements than any request needs.")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise RefusalError("bad_request", "The JSON gives one name twice.")
        return found

    try:
        content = json.loads(body, object_pairs_hook=once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise RefusalError("bad_request", "The body is no JSON that can be read.") from None
    if not isinstance(content, dict):
        raise RefusalError("bad_request", "The body is no JSON object.")
    return content


def _check_field(name: str, known: Collection[str]) -> None:
    if name in known:
        return
    listed = ", ".join(f"`{field}`" for field in sorted(known))
    wrong = f"The field {name[:40]!r} is unknown" if name else "A field of the form has no name"
    where = "`a` and `b`, or `image`" if "a" in known else "`image`"
    message = f"{wrong}: send image files as {where}. The fields are {listed}."
    raise RefusalError("bad_request", message)


def _too_long(field: str) -> RefusalError:
    return RefusalError("bad_request", f"`{field[:40]}` has more than {_TEXT_BYTES:,} bytes.")


def _no_constant(word: str) -> None:
    raise ValueError(word)


def _base64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise RefusalError("bad_request", "An image in JSON is text: base64.")
    if text.startswith("data:"):
        head, comma, text = text[:200].partition(",")[0], text.find(","), text
        if comma < 0 or not head.endswith(";base64"):
            raise RefusalError("not_an_image", "The data: URL is not base64.")
        text = text[comma + 1 :]
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        message = "An image in JSON is base64; URLs and paths are not followed."
        raise RefusalError("not_an_image", message) from None


def number(value: Any, name: str) -> float | None:
    """A number of a query, a form or JSON; None for none."""
    if value is None:
        return None
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        found = float(value)
    except (ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise RefusalError("bad_request", f"`{name}` is a number.")
    return found


def whole(value: Any, name: str, low: int, high: int, usual: int) -> int:
    """A whole number within a range; `usual` where there is none."""
    if value is None:
        return usual
    try:
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ValueError
        found = int(value)
    except ValueError:
        found = low - 1
    if not low <= found <= high:
        raise RefusalError("bad_request", f"`{name}` is a whole number of {low} to {high}.")
    return found


def text_of(value: Any, name: str) -> str:
    """A text that must be there."""
    if not isinstance(value, str):
        raise RefusalError("bad_request", f"`{name}` is missing, or no text.")
    return value
