"""Bodies of requests as models: forms with files, or JSON with images in base64.

Everything stays in memory, whose size the limit of the body bounds: no file is ever written.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from arcset.service import models
from arcset.service.errors import STATUS, ApiError
from arcset.service.service import Service
from arcset.text import sentence

Body = TypeVar("Body", bound=models.Request)

_TEXT_BYTES = 4096  # of a text in a form
_OTHER_FIELDS = 16
_OTHER_ELEMENTS = 1 << 10  # of JSON beside its images: names may be full of commas
_IMAGES = {"image", "images", "a", "b"}


async def read_body(
    request: Request, model: type[Body], query: models.Request | None = None
) -> Body:
    """The body of a request, with what its query says.

    Raises `ApiError`: bad_request, unsupported_media_type, not_an_image for what is no base64,
    too_many_images, and what the limits of the body raise.
    """
    service: Service = request.app.state.service
    most = service.settings.max_images
    options = {} if query is None else query.model_dump(exclude_unset=True)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_images = not _IMAGES.isdisjoint(model.model_fields)
    if kind == "multipart/form-data" and has_images:
        body = _validate(model, await _read_form(request, most), options)
    elif kind == "application/json":
        content = await request.body()

        def parse() -> Body:
            # Twice: a data: URL has a comma of its own.
            return _validate(model, _parse_json(content, 2 * most + _OTHER_ELEMENTS), options)

        body = await run_in_threadpool(parse)
    else:
        expected = "a form (multipart/form-data), or application/json" if has_images else "JSON"
        raise ApiError("unsupported_media_type", f"Send {expected}.")
    if isinstance(body, models.ImagesRequest) and len(body.all_images) > most:
        raise _too_many_images(most)
    return body


class _Form(MultiPartParser):
    """Starlette's parser, which never writes a file, and notices that a form was cut short."""

    spool_max_size = 1 << 40  # more than any body may have
    is_whole = False

    def on_end(self) -> None:
        """After the last part."""
        self.is_whole = True


async def _read_form(request: Request, most: int) -> dict[str, Any]:
    """Fields by their names: a value, or all of those that were given."""
    parser = _Form(
        request.headers,
        request.stream(),
        max_files=most,
        max_fields=_OTHER_FIELDS,
        max_part_size=_TEXT_BYTES,
    )
    try:
        form = await parser.parse()
    except UnicodeError:  # of the charset that the client named, of all that Python has
        raise ApiError("bad_request", "The texts of the form are not UTF-8.") from None
    except MultiPartException as error:
        if error.message.startswith("Too many files"):
            raise _too_many_images(most) from None
        message = f"The form cannot be read: {error.message} Send image files as `image`."
        raise ApiError("bad_request", message) from None
    if not parser.is_whole:
        raise ApiError("bad_request", "The form ends before its last part does.")
    fields: dict[str, list[Any]] = {}
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            with value.file as file:
                image = models.Image(file.read(), last_part(value.filename or ""))
            fields.setdefault(name, []).append(image)
        else:
            fields.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def _parse_json(body: bytes, most: int) -> dict[str, Any]:
    """A JSON object of at most so many elements.

    They are counted before it is parsed, as millions of them take seconds, in which no other thread
    runs; in strings these characters count as well.
    """
    if sum(body.count(sign) for sign in (b",", b"[", b"{")) > most:
        raise ApiError("bad_request", "The JSON has more elements than any request needs.")
    try:
        content = from_json(body, allow_inf_nan=False)
    except ValueError:
        raise ApiError("bad_request", "The body is not valid JSON.") from None
    if not isinstance(content, dict):
        raise ApiError("bad_request", "The body is not a JSON object.")
    return content


def _validate(model: type[Body], fields: Mapping[str, Any], options: Mapping[str, Any]) -> Body:
    if twice := fields.keys() & options.keys():
        raise ApiError("bad_request", f"`{min(twice)}` is given twice.")
    try:
        return model.model_validate({**fields, **options})
    except ValidationError as error:
        raise describe_errors(error.errors(include_input=False), model) from None


def describe_errors(
    errors: Sequence[Mapping[str, Any]], model: type[BaseModel] | None = None
) -> ApiError:
    """An answer to the first unknown field, or else to the first error.

    Errors that our own checks raise have a code of `STATUS` as their type.
    """
    error = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    code = error["type"] if error["type"] in STATUS else "bad_request"
    names = [str(part) for part in error["loc"] if part not in ("query", "path", "body")]
    field = names[0][:40] if names else ""
    if error["type"] == "extra_forbidden":
        if model is None:
            return ApiError(code, f"The parameter {field!r} is unknown.")
        known = ", ".join(f"`{name}`" for name in model.model_fields)
        return ApiError(code, f"The field {field!r} is unknown; the fields are {known}.")
    text = sentence(error["msg"].removeprefix("Value error, "))
    return ApiError(code, f"`{field}`: {text}" if field and code == "bad_request" else text)


def _too_many_images(most: int) -> ApiError:
    return ApiError("too_many_images", f"One request takes at most {most} images.")


def last_part(path: str) -> str | None:
    """The last part of a path of any system, of characters that can be shown; None for nothing.

    >>> last_part("C:\\\\photos\\\\anna.png"), last_part("/home/photos/anna.png"), last_part("")
    ('anna.png', 'anna.png', None)
    """
    last = path.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(letter for letter in last if letter.isprintable())[:200].strip() or None
