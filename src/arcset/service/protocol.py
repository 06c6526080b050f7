"""HTTP as it comes in: headers have a size and a time limit, connections a number.

uvicorn leaves these to a proxy in front of it. What is refused here is answered in the shape of all
other errors. Whoever does not read an answer is cut off.
"""

import asyncio
import secrets
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from arcset.service.access_log import HEADERS, log_line
from arcset.service.errors import ApiError, error_response

__all__ = ["limited_protocol"]

MOST_HEADERS, HEADER_BYTES, URL_BYTES = 100, 32 << 10, 16 << 10
MOST_CONNECTIONS = 512

_MESSAGES = {
    "bad_request": "This is no HTTP request that can be read.",
    "headers_too_large": f"A request has at most {MOST_HEADERS} headers of {HEADER_BYTES:,} bytes.",
    "too_slow": "The headers of the request did not arrive in time.",
    "busy": "There are too many connections at the moment.",
}


class _Limited(HttpToolsProtocol):
    seconds = 30.0  # that a request may take to begin or to end, and a client to read its answer

    _head = 0  # bytes of headers so far
    _in_head = True
    _timers: dict[str, asyncio.TimerHandle]

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
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

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._arm("head", self._end_slow_head)

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


def limited_protocol(seconds: float) -> type[asyncio.Protocol]:
    """The protocol for uvicorn, with so many seconds for headers to come and answers to go."""
    return type("Limited", (_Limited,), {"seconds": seconds})
