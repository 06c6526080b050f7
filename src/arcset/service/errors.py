"""What the service answers where it cannot do what was asked: one shape, with stable codes."""

import json
from typing import Any

from arcset.errors import ArcsetError, DataError, InputError, OptionError
from arcset.text import sentence

__all__ = ["STATUS", "RefusalError", "error_body", "refusal_of"]

#: Every code and its HTTP status. Codes never change their meaning.
STATUS = {
    "bad_request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "no_such_subject": 404,
    "no_such_sample": 404,
    "no_image_kept": 404,
    "method_not_allowed": 405,
    "too_slow": 408,
    "already_exists": 409,
    "no_calibration": 409,
    "body_too_large": 413,
    "unsupported_media_type": 415,
    "not_an_image": 422,
    "image_too_large": 422,
    "no_face": 422,
    "too_many_images": 422,
    "unsupported_rate": 422,
    "busy": 429,
    "headers_too_large": 431,
    "internal": 500,
    "shutting_down": 503,
    "gallery_unavailable": 503,
}


class RefusalError(ArcsetError):
    """A request that is not done: a code of `STATUS`, one sentence, and headers to go with it."""

    def __init__(self, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message
        self.status = STATUS[code]
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def json(self) -> dict[str, str]:
        """Code and message."""
        return {"code": self.code, "message": self.message}


def refusal_of(error: ArcsetError) -> RefusalError:
    """What the project raises on purpose, as an answer."""
    if isinstance(error, RefusalError):
        return error
    if isinstance(error, OptionError | InputError):
        return RefusalError("bad_request", sentence(error))
    if isinstance(error, DataError):
        return RefusalError("gallery_unavailable", "The gallery cannot be used at the moment.")
    return RefusalError("internal", "Something went wrong within the service.")


def error_body(code: str, message: str, request_id: str) -> bytes:
    """The body of every answer that is none."""
    content: dict[str, Any] = {"code": code, "message": message, "request_id": request_id}
    return json.dumps({"error": content}, ensure_ascii=False).encode("utf-8", "replace")
