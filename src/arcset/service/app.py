"""The application: what a request passes on its way to a route."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware

from arcset import __version__
from arcset.errors import ArcsetError
from arcset.recognition.gallery import Gallery
from arcset.service import routes, subjects  # noqa: F401 (they declare their routes)
from arcset.service.access_log import AccessLog, log_error, log_line
from arcset.service.auth import OPEN, READ, WRITE, Access
from arcset.service.errors import STATUS, ApiError, as_api_error, error_response
from arcset.service.keys import Keys
from arcset.service.limits import Limits
from arcset.service.models import Problem
from arcset.service.service import Service
from arcset.service.settings import ServiceSettings
from arcset.service.uploads import describe_errors

# Variables of the environment would make newer versions of FastAPI tell others about requests,
# whose paths hold names; older ones tell nobody, and keep this for nothing.
_NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "model": Problem,
        "description": ", ".join(code for code in STATUS if STATUS[code] == status),
    }
    for status in sorted(set(STATUS.values()))
}


def make_app(
    gallery: Gallery, keys: Keys, settings: ServiceSettings | None = None, *, views: Any = None
) -> FastAPI:
    """A gallery as an ASGI application; it closes the gallery when it is shut down.

    Its paths are whole: it cannot be mounted below a path of another application.

    Parameters:
        gallery: opened with its model.
        keys: who may ask; without any, everybody on this machine.
        settings: limits; the usual ones if left out.
        views: runs to be shown, or None.

    Raises `OptionError` for a gallery without a model, or with one that takes no images.
    """
    service = Service(gallery, settings or ServiceSettings(), keys, views)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        try:
            service.close()
        except ArcsetError as error:
            log_line("error", kind=type(error).__name__, why=str(error))

    app = FastAPI(
        title="arcset",
        version=__version__,
        description="Who is it, or nobody I know: a gallery of subjects behind HTTP.",
        lifespan=lifespan,
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,  # among the routes, as it takes a role
        responses=_PROBLEMS,
        telemetry=_NO_TELEMETRY,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.service = service
    for router in (OPEN, READ, WRITE):
        app.include_router(router)
    app.add_exception_handler(ArcsetError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_error)
    origins = service.settings.cors
    access = Access(keys, origins, read_only=service.read_only)
    app.add_middleware(Limits, service=service, access=access)
    if origins:
        app.add_middleware(
            _Cors,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["Authorization", "X-API-Key", "Content-Type", "X-Request-ID"],
            expose_headers=["X-Request-ID", "Retry-After"],
        )
    app.add_middleware(AccessLog, service=service)
    return app


class _Cors(CORSMiddleware):
    """Refuses in the shape of this service's errors."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """What a browser asks before it lets another page ask."""
        response = super().preflight_response(request_headers)
        if response.status_code != 200:
            message = "This page, method or header is not allowed: see --cors."
            raise ApiError("bad_request", message)
        return response


async def _answer_error(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        error = describe_errors(error.errors())
    answer = as_api_error(error)
    if answer.status >= 500 and not isinstance(error, ApiError):
        log_error(request.scope, error)
    return error_response(answer, request.scope)
