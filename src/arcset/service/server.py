"""One process that listens, bounds what comes in, and stops without losing anything."""

import asyncio
import logging
import math
import secrets
import socket
import time
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from arcset.errors import OptionError
from arcset.service.access_log import HEADERS, log_line
from arcset.service.auth import is_loopback
from arcset.service.errors import ApiError, error_response
from arcset.service.keys import Keys
from arcset.service.service import Service

_KEEP_ALIVE = 75  # seconds: longer than a proxy's, so that it is the proxy who closes
_STOP_SECONDS = 10  # that requests have to end, once the service is told to stop
MOST_HEADERS, HEADER_BYTES, URL_BYTES = 100, 32 << 10, 16 << 10
MOST_CONNECTIONS = 512

_MESSAGES = {
    "bad_request": "This is not a valid HTTP request.",
    "headers_too_large": f"A request has at most {MOST_HEADERS} headers of {HEADER_BYTES:,} bytes.",
    "too_slow": "The headers of the request did not arrive in time.",
    "busy": "There are too many connections at the moment.",
}


def check_exposure(host: str, keys: Keys) -> None:
    """Raises `OptionError` for an address that others reach, where there are no keys."""
    if not is_loopback(host) and not keys.required:
        raise OptionError(
            f"--host {host} lets others reach the gallery, and there is no key yet: make one with "
            f"`arcset keys add`"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound; port 0 takes a free one. Raises `OptionError` where that fails."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(kind, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        why = getattr(error, "strerror", None) or error
        raise OptionError(f"cannot listen at {host}, port {port}: {why}") from None
    return bound


def run(app: FastAPI, bound: socket.socket, started: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or SIGINT, then answer what is there, and return."""
    service: Service = app.state.service
    _keep_quiet()
    config = uvicorn.Config(
        app,
        http=type("Http", (_LimitedHttp,), {"seconds": service.settings.body_seconds}),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",  # access_log.py says what there is to say
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=1,  # `on_tick` has waited for all that matters
        backlog=512,
    )
    _Server(config, service, started).run(sockets=[bound])


def _keep_quiet() -> None:
    """Libraries quote what they cannot read, which may be somebody's; the log tells the kind."""
    for name in ("python_multipart", "PIL"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.showwarning = lambda message, category, *_, **__: log_line(
        "warning", kind=category.__name__
    )


class _Server(uvicorn.Server):
    """Ends in two steps: nothing new is taken, and then, when all is answered, nobody listens."""

    def __init__(
        self, config: uvicorn.Config, service: Service, started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.service, self.announce = service, started
        self._deadline = math.inf

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self.announce()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop at a signal, at the second one at once; uvicorn would then raise it again,
        but stopping on a signal is a good end: the process exits with 0.
        """
        if self.service.stopping:
            self.force_exit = self.should_exit = True
        self.service.stopping = True
        self._deadline = time.monotonic() + _STOP_SECONDS

    async def on_tick(self, counter: int) -> bool:
        """Whether to leave the main loop, which asks ten times a second."""
        if self.service.stopping and (
            not self.service.in_flight or time.monotonic() > self._deadline
        ):
            self.should_exit = True
        return await super().on_tick(counter)


class _LimitedHttp(HttpToolsProtocol):
    """HTTP whose headers have a size and a time limit, and connections a number.

    uvicorn leaves these to a proxy in front of it. What is refused here is answered in the shape of
    all other errors. Whoever does not read an answer is cut off.
    """

    seconds = 30.0  # that a request may take to begin or to end, and a client to read its answer

    _head = 0  # bytes of headers so far
    _in_head = True
    _timers: dict[str, asyncio.TimerHandle]

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # whatever is not read at once has its time
        self._timers = {}
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse("busy")
        else:
            self._arm("head", self._end_slow_head)

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._timers):
            self._disarm(name)
        super().connection_lost(exc)
        if self.cycle is not None and callable(leave := self.cycle.scope.get("on_disconnect")):
            leave()  # so that nobody works for a client who left

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._head += len(data)
        super().data_received(data)
        if self._in_head and self._head > HEADER_BYTES + URL_BYTES:
            self._refuse("headers_too_large")
        elif self._in_head and self._head and not self._is_answering():  # even by an empty line
            self._arm("head", self._end_slow_head)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def on_headers_complete(self) -> None:
        self._disarm("head")
        self._in_head = False
        if self._has_large_head():
            raise ValueError  # for the parser, which calls `send_400_response`
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._disarm("rest")
        self._in_head, self._head = True, 0  # of what may follow on this connection
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.more_body:  # answered early: the rest is passed over, for a while
            self._arm("rest", self.transport.close)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._arm("unread", self.transport.abort)

    def resume_writing(self) -> None:
        self._disarm("unread")
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._refuse("headers_too_large" if self._has_large_head() else "bad_request")

    def _has_large_head(self) -> bool:
        headers = self.headers or []
        size = sum(len(name) + len(value) + 4 for name, value in headers)
        is_long = self._in_head and self._head > HEADER_BYTES
        is_long = is_long or len(getattr(self, "url", b"")) > URL_BYTES
        return is_long or size > HEADER_BYTES or len(headers) > MOST_HEADERS

    def _end_slow_head(self) -> None:
        if self._head:
            self._refuse("too_slow")
        else:
            self.transport.close()

    def _refuse(self, code: str) -> None:
        if self.transport.is_closing():
            return
        scope = {"request_id": secrets.token_hex(8)}
        response = error_response(ApiError(code, _MESSAGES[code]), scope)
        response.headers.update({**HEADERS, "cache-control": "no-store", "connection": "close"})
        response.headers["x-request-id"] = scope["request_id"]
        if code == "busy":
            response.headers["retry-after"] = "1"
        log_line("refused", **scope, status=response.status_code)
        lines = b"".join(b"%s: %s\r\n" % pair for pair in response.raw_headers)
        content = STATUS_LINE[response.status_code] + lines + b"\r\n" + bytes(response.body)
        self.transport.write(content)
        self.transport.close()

    def _arm(self, name: str, then: Any) -> None:
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(self.seconds, then)

    def _disarm(self, name: str) -> None:
        if name in self._timers:
            self._timers.pop(name).cancel()
