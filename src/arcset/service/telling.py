"""Around everything: a request's id, its log line, its figures, and headers of every answer."""

import itertools
import json
import logging
import re
import secrets
import sys
import time
from typing import Any
from urllib.parse import quote

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arcset.service.errors import RefusalError
from arcset.service.gate import send_refusal
from arcset.service.service import Service

__all__ = ["HEADERS", "Telling", "log_line", "template_of"]

_PROCESS, _COUNTER = secrets.token_hex(4), itertools.count()  # ids of requests, all different
_SANE = re.compile(r"[A-Za-z0-9._:-]{1,64}")

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
_RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class Telling:
    """Pure ASGI: gives each request an id, and tells log and metrics how it ended.

    What nobody expected is answered as `internal`, without details; these are in the log.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["path"], scope["root_path"] = _path(scope), ""
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # uvicorn, which has its own, leaves out the body
        began = time.perf_counter()
        request_id = scope["request_id"] = _request_id(scope)
        status, sent = 0, 0

        async def tell(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message.setdefault("headers", [])
                headers += _RAW_HEADERS
                headers.append((b"x-request-id", request_id.encode()))
                if scope["path"].startswith("/v1/"):
                    headers.append((b"cache-control", b"no-store"))
            else:
                sent += len(message.get("body", b""))
            try:
                await send(message)
            except RuntimeError as error:
                if "closed" in str(error):  # uvloop's way to say that the client has left
                    raise ClientDisconnect from None
                raise

        try:
            await self.app(scope, receive, tell)
        except ClientDisconnect:
            pass  # nobody is there to be answered: noted as 499
        except RefusalError as refusal:
            await send_refusal(refusal, scope, tell)
        except Exception as error:
            scope["error_code"] = "internal"
            log_line("error", request_id=request_id, kind=type(error).__name__, trace=_trace(error))
            if not status:
                message = "Something went wrong within the service."
                await send_refusal(RefusalError("internal", message), scope, tell)
        finally:
            self._note(scope, status or 499, sent, time.perf_counter() - began)

    def _note(self, scope: Scope, status: int, sent: int, seconds: float) -> None:
        route, metrics = template_of(scope), self.service.metrics
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        metrics.requests.labels(method, route, str(status)).inc()
        metrics.seconds.labels(route).observe(seconds)
        code = scope.get("error_code")
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
                **({"key": scope["key_id"]} if scope.get("key_id") else {}),
                **({"code": code} if code else {}),
            )


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def template_of(scope: Scope) -> str:
    """The route as it is written down, without names or ids; `none` for what is no route."""
    return str(getattr(scope.get("route"), "path", "none"))


def _path(scope: Scope) -> str:
    """The path as it was sent, below the one where the service is mounted.

    Limits, routes, roles, metrics and headers all go by this one. It is not decoded: a name in it
    may hold an encoded slash, and another spelling of a route is not that route.
    """
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    return str(raw.decode("latin-1").removeprefix(scope.get("root_path", "")))


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            said = value.decode("latin-1")
            if _SANE.fullmatch(said):
                return str(said)
    return f"{_PROCESS}{next(_COUNTER):08x}"


def _trace(error: Exception) -> list[str]:
    """Where in the code it happened; never with values, which may be names or images."""
    found, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        found.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return found[-12:]


def log_line(event: str, **values: Any) -> None:
    """One JSON object on one line of stderr."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
    line = json.dumps({"time": stamp, "event": event, **values}, ensure_ascii=False)
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody reads it any more
        logging.getLogger(__name__).debug("stderr is closed")
