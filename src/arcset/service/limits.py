"""The middleware before the routes: who may ask, how much, how many at once, and how slowly.

All of it is decided from the headers, before a byte of the body is read; a body is then counted
and timed while it arrives.
"""

import asyncio

from starlette.datastructures import Headers, QueryParams
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arcset.service.auth import Access
from arcset.service.errors import ApiError, error_response
from arcset.service.service import Service


class Limits:
    """Admits requests, and bounds them and their bodies.

    Requests are counted below /v1/, the bytes of every body until its request ends. A body that is
    said to be too long is refused unread; one that turns out to be, when it does.
    """

    def __init__(self, app: ASGIApp, service: Service, access: Access) -> None:
        self.app, self.service, self.access = app, service, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request in, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        counted = scope["path"].startswith("/v1/")
        try:
            scope["caller"] = self.access.admit(scope)
            _check_query(scope)
            if counted:
                self._check_room(scope)
        except ApiError as error:
            await error_response(error, scope)(scope, receive, send)
            return
        service = self.service
        service.in_flight += counted
        service.metrics.in_flight.set(service.in_flight)
        try:
            await self.app(scope, self._bounded(receive, scope), send)
        finally:
            service.in_flight -= counted
            service.held -= scope.get("received", 0)
            service.metrics.in_flight.set(service.in_flight)

    def _check_room(self, scope: Scope) -> None:
        service, settings = self.service, self.service.settings
        if service.stopping:
            raise ApiError("shutting_down", "The service is shutting down.")
        text = Headers(scope=scope).get("content-length", "")
        length = int(text) if text.isdecimal() else 0
        if length > settings.max_body:
            raise self._too_long()
        if service.in_flight >= settings.max_requests or service.held + length > settings.max_held:
            raise _busy()

    def _too_long(self) -> ApiError:
        most = self.service.settings.max_body
        return ApiError("body_too_large", f"A request has at most {most:,} bytes.")

    def _bounded(self, receive: Receive, scope: Scope) -> Receive:
        """`receive`, with a limit of bytes and of time."""
        service, settings = self.service, self.service.settings
        deadline: float | None = None
        is_whole = False

        async def receive_bounded() -> Message:
            nonlocal deadline, is_whole
            if is_whole:
                return await receive()  # waits for the client to go away
            deadline = deadline or asyncio.get_running_loop().time() + settings.body_seconds
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                text = f"The request did not arrive within {settings.body_seconds:g} seconds."
                raise ApiError("too_slow", text, Connection="close") from None
            if message["type"] == "http.request":
                size = len(message.get("body", b""))
                scope["received"] = scope.get("received", 0) + size
                service.held += size
                if scope["received"] > settings.max_body:
                    raise self._too_long()
                if service.held > settings.max_held:
                    raise _busy()
                is_whole = not message.get("more_body", False)
            return message

        return receive_bounded


def _check_query(scope: Scope) -> None:
    """Refuse a query that names something twice: which of both is meant is not to be guessed."""
    if b"&" in scope["query_string"]:
        query = QueryParams(scope["query_string"])
        if len(query) < len(query.multi_items()):
            raise ApiError("bad_request", "A parameter of the query is given twice.")


def _busy() -> ApiError:
    return ApiError("busy", "The service is busy at the moment: try again later.", Retry_After="1")
