"""The application: routes, and what stands around them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from arcset import __version__
from arcset.errors import ArcsetError
from arcset.recognition.gallery import Gallery
from arcset.service import (
    page_routes,
    recognize_routes,
    state_routes,
    subject_routes,
    view_routes,
)
from arcset.service.access import ACCESS
from arcset.service.answers import answer
from arcset.service.documents import document
from arcset.service.doorkeeper import authorize
from arcset.service.errors import RefusalError, error_body, refusal_of
from arcset.service.gate import Gate
from arcset.service.keys import Keys
from arcset.service.service import Service
from arcset.service.settings import ServiceSettings
from arcset.service.telling import Telling, log_line, template_of

__all__ = ["make_app"]

# Variables of the environment would make newer versions of FastAPI tell others about requests,
# whose paths hold names; older ones tell nobody, and keep this for nothing.
_NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}


def make_app(
    gallery: Gallery, keys: Keys, settings: ServiceSettings | None = None, *, views: Any = None
) -> FastAPI:
    """A gallery as an ASGI application; it closes the gallery when it is shut down.

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
        openapi_url=None,
        telemetry=_NO_TELEMETRY,
        dependencies=[Depends(authorize)],
        redirect_slashes=False,
    )
    app.state.service = service
    for module in (recognize_routes, subject_routes, state_routes, view_routes, page_routes):
        app.include_router(module.router)
    app.add_api_route("/openapi.json", _document, include_in_schema=False)
    app.add_exception_handler(ArcsetError, _refused)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_middleware(Gate, service=service)
    if service.settings.cors:
        app.add_middleware(
            _Cors,
            allow_origins=service.settings.cors,
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["Authorization", "X-API-Key", "Content-Type", "X-Request-ID"],
            expose_headers=["X-Request-ID", "Retry-After"],
        )
    app.add_middleware(Telling, service=service)
    return app


class _Cors(CORSMiddleware):
    """Refuses in the words of this service."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """What a browser asks before it lets another page ask."""
        found = super().preflight_response(request_headers)
        if found.status_code != 200:
            message = "This page, method or header is not allowed: see --cors."
            raise RefusalError("bad_request", message)
        return found


async def _document(request: Request) -> Response:
    """What this service understands, as OpenAPI."""
    return answer(document(request.app))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ArcsetError)
    refusal = refusal_of(error)
    if not isinstance(error, RefusalError) and refusal.status >= 500:
        quotes = "'" in str(error) or '"' in str(error)  # perhaps somebody's name
        log_line(
            "error",
            request_id=request.scope["request_id"],
            kind=type(error).__name__,
            why=None if quotes else str(error),
        )
    return _response(request, refusal)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _response(request, RefusalError("not_found", "There is nothing at this address."))
    if error.status_code == 405:
        path = template_of(request.scope)
        allow = ", ".join(sorted(method for method, template in ACCESS if template == path))
        message = "This address does not take this method."
        return _response(request, RefusalError("method_not_allowed", message, Allow=allow))
    return _response(request, RefusalError("bad_request", "The request cannot be read."))


async def _not_valid(request: Request, error: Exception) -> Response:
    return _response(request, RefusalError("bad_request", "A value of the request is not valid."))


def _response(request: Request, refusal: RefusalError) -> Response:
    request.scope["error_code"] = refusal.code
    body = error_body(refusal.code, refusal.message, request.scope["request_id"])
    return Response(body, refusal.status, refusal.headers, media_type="application/json")
