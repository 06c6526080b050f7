"""Around everything: a request's id, its log line, its figures, and headers of every answer."""

import json
import re
import secrets
import sys
import time
from contextlib import suppress
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arcset.errors import ArcsetError
from arcset.service.errors import as_api_error, error_response
from arcset.service.service import Service

_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")

#: Sent with every answer. The page needs nothing from elsewhere, and is framed by nobody.
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' blob: data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "geolocation=(), microphone=()",
}


class AccessLog:
    """The outermost middleware: gives each request an id, and notes how it ended.

    What nobody expected is answered as `internal`, without details; these are in the log.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # Limits, routes, roles, metrics and headers all go by the path as it was sent: a name in it
        # may hold an encoded slash, and another spelling of a route is not that route.
        scope["path"] = scope["raw_path"].decode("latin-1")
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # uvicorn, which has its own, leaves out the body
        began = time.perf_counter()
        scope["request_id"] = _request_id(scope)
        status, sent = 0, 0

        async def send_noted(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update({**HEADERS, "x-request-id": scope["request_id"]})
                if scope["path"].startswith("/v1/"):
                    headers["cache-control"] = "no-store"
            sent += len(message.get("body", b""))
            try:
                await send(message)
            except RuntimeError as error:
                if "closed" in str(error):  # uvloop's way to say that the client has left
                    raise ClientDisconnect from None
                raise

        try:
            await self.app(scope, receive, send_noted)
        except ClientDisconnect:
            pass  # nobody is there to be answered: noted as 499
        except Exception as error:
            log_error(scope, error)
            if not status:
                await error_response(as_api_error(error), scope)(scope, receive, send_noted)
        finally:
            self._note(scope, status or 499, sent, time.perf_counter() - began)

    def _note(self, scope: Scope, status: int, sent: int, seconds: float) -> None:
        route, metrics = scope.get("route_path", "none"), self.service.metrics
        method = scope["method"]  # one of some thirty, as the parser knows no others
        metrics.requests.labels(method, route, str(status)).inc()
        metrics.seconds.labels(route).observe(seconds)
        caller, code = scope.get("caller"), scope.get("error_code")
        if code:
            metrics.refused.labels(code).inc()
        if self.service.settings.log or status >= 500:
            log_line(
                "request",
                request_id=scope["request_id"],
                method=method,
                route=route,
                status=status,
                ms=round(1000 * seconds, 2),
                received=scope.get("received", 0),
                sent=sent,
                **({"key": caller.key_id} if caller and caller.key_id else {}),
                **({"code": code} if code else {}),
            )


def _request_id(scope: Scope) -> str:
    given = Headers(scope=scope).get("x-request-id", "")
    return given if _SANE_ID.fullmatch(given) else secrets.token_hex(8)


def log_error(scope: Scope, error: Exception) -> None:
    """Where in the code it happened, and what arcset says of it unless that may quote a name."""
    places, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    why = (
        str(error) if isinstance(error, ArcsetError) and not set("'\"") & set(str(error)) else None
    )
    kind = type(error).__name__
    log_line("error", request_id=scope["request_id"], kind=kind, why=why, trace=places[-12:])


def log_line(event: str, **values: Any) -> None:
    """One JSON object on one line of stderr."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
    line = json.dumps({"time": stamp, "event": event, **values}, ensure_ascii=False)
    with suppress(OSError, ValueError):  # nobody reads it any more
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
