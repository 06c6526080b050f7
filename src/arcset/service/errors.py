"""What the service answers when it cannot do what was asked: one shape, with stable codes."""

from fastapi import Response
from starlette.types import Scope

from arcset.errors import ArcsetError, DataError, InputError, OptionError
from arcset.service.models import Problem, ProblemDetail
from arcset.text import sentence

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
    "busy": 429,
    "headers_too_large": 431,
    "internal": 500,
    "shutting_down": 503,
    "gallery_unavailable": 503,
}


class ApiError(ArcsetError):
    """A request that is refused: a code of `STATUS`, one sentence, and headers to go with it."""

    def __init__(self, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, STATUS[code]
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def as_api_error(error: Exception) -> ApiError:
    """Any error as an answer: nothing that was not meant for the client is in it."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, OptionError | InputError):
        return ApiError("bad_request", sentence(error))
    if isinstance(error, DataError):
        return ApiError("gallery_unavailable", "The gallery cannot be used at the moment.")
    return ApiError("internal", "Something went wrong within the service.")


def error_response(error: ApiError, scope: Scope) -> Response:
    """The answer of an error; the log and the figures find its code in the scope."""
    scope["error_code"] = error.code
    detail = ProblemDetail(
        code=error.code, message=error.message, request_id=scope.get("request_id", "")
    )
    response = Problem(error=detail).response(error.status)
    response.headers.update(error.headers)
    return response
