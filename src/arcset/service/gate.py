"""At the door: what is too much, too slow or too late is refused before any work is done."""

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arcset.service.errors import RefusalError, error_body
from arcset.service.service import Service

__all__ = ["Gate", "send_refusal"]


class Gate:
    """Pure ASGI: counts requests and the bytes of their bodies, and bounds both.

    The bytes of every body count until its request ends; requests count below /v1/. A body that is
    said to be too long is refused unread; one that turns out to be, when it does.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request in, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        service, counted = self.service, scope["path"].startswith("/v1/")
        if counted:
            try:
                _check(scope, service)
            except RefusalError as refusal:
                await send_refusal(refusal, scope, send)
                return
        service.in_flight += counted
        service.metrics.in_flight.set(service.in_flight)
        try:
            await self.app(scope, _bounded(receive, scope, service), send)
        finally:
            service.in_flight -= counted
            service.held -= scope.get("received", 0)
            service.metrics.in_flight.set(service.in_flight)


def _check(scope: Scope, service: Service) -> None:
    if service.stopping:
        raise RefusalError("shutting_down", "The service is about to stop.")
    if service.in_flight >= service.settings.max_requests:
        raise _busy()
    length = _length(scope)
    if length is not None:
        if length > service.settings.max_body:
            raise _too_long(service)
        if service.held + length > service.settings.max_held:
            raise _busy()


def _length(scope: Scope) -> int | None:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None


def _busy() -> RefusalError:
    return RefusalError("busy", "There is too much to do at the moment.", Retry_After="1")


def _too_long(service: Service) -> RefusalError:
    most = service.settings.max_body
    return RefusalError("body_too_large", f"A request has at most {most:,} bytes.")


def _bounded(receive: Receive, scope: Scope, service: Service) -> Receive:
    """`receive`, with a limit of bytes and of time."""
    settings = service.settings
    deadline: float | None = None

    async def bounded() -> Message:
        nonlocal deadline
        if scope.get("whole"):
            return await receive()  # waits for the client to go away
        loop = asyncio.get_running_loop()
        if deadline is None:
            deadline = loop.time() + settings.body_seconds
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            text = f"The request did not arrive within {settings.body_seconds:g} seconds."
            raise RefusalError("too_slow", text, Connection="close") from None
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            scope["received"] = scope.get("received", 0) + size
            service.held += size
            if scope["received"] > settings.max_body:
                raise _too_long(service)
            if service.held > settings.max_held:
                raise _busy()
            scope["whole"] = not message.get("more_body", False)
        return message

    return bounded


async def send_refusal(refusal: RefusalError, scope: Scope, send: Send) -> None:
    """Answer with an error."""
    scope["error_code"] = refusal.code
    body = error_body(refusal.code, refusal.message, scope.get("request_id", ""))
    headers: dict[str, Any] = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **refusal.headers,
    }
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
