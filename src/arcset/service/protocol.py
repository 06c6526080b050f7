"""HTTP as it comes in: headers have a size and a time limit, and nobody sends without end.

uvicorn leaves both to a proxy in front of it. Whoever does not read the answer is cut off, too.
What cannot be read as HTTP is answered in the shape of all other errors. After an answer that came
before the whole request was here, the rest is thrown away for a moment, so that the client, which
still sends, gets to read the answer.
"""

import asyncio
import secrets
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from arcset.service.errors import STATUS, error_body
from arcset.service.telling import HEADERS, log_line

__all__ = ["guarded_protocol"]

MOST_HEADERS, HEADER_BYTES, URL_BYTES = 100, 32 << 10, 16 << 10
MOST_CONNECTIONS = 512
_LINGER_SECONDS = 2.0
_LINGER_BYTES = 256 << 20

_MESSAGES = {
    "bad_request": "This is no HTTP request that can be read.",
    "headers_too_large": f"A request has at most {MOST_HEADERS} headers of {HEADER_BYTES:,} bytes.",
    "too_slow": "The headers of the request did not arrive in time.",
    "busy": "There are too many connections at the moment.",
}


class _TooLargeError(Exception):
    """Headers, or a URL, beyond the limit."""


class _Guarded(HttpToolsProtocol):
    seconds = 30.0  # that headers may take, and a client to read what was written

    _head = 0  # bytes of headers so far, while these come
    _in_head, _in_message, _close_then = True, False, False
    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None  # until an answer has to be taken
    _lingering: int | None = None  # bytes that may still be thrown away

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse("busy")
            return
        self._arm(self.seconds, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._read()
        super().connection_lost(exc)
        if self.cycle is not None and callable(gone := self.cycle.scope.get("gone")):
            gone()  # so that nobody works for a client who left

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._head += len(data)
        super().data_received(data)
        if self._in_head and self._head > HEADER_BYTES + URL_BYTES:
            self._refuse("headers_too_large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_message = self._in_head = True
        self._head = 0
        if self._timer is None:
            self._arm(self.seconds, self._late)

    def on_headers_complete(self) -> None:
        self._disarm()
        self._in_head, self._head = False, 0
        size = sum(len(name) + len(value) + 4 for name, value in self.headers)
        if len(self.headers) > MOST_HEADERS or size > HEADER_BYTES or len(self.url) > URL_BYTES:
            raise _TooLargeError
        super().on_headers_complete()
        # Closed by `on_response_complete`, where the whole request may have to be waited for.
        self._close_then = not self.cycle.keep_alive and self.scope["method"] not in ("GET", "HEAD")
        self.cycle.keep_alive = self.cycle.keep_alive or self._close_then

    def on_body(self, body: bytes) -> None:
        if self._lingering is not None:
            self._lingering -= len(body)
            if self._lingering < 0:
                self.transport.close()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_message = False
        super().on_message_complete()
        if self._lingering is not None:
            self._lingering = None
            self._disarm()
            if self._close_then:
                self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_message and not self.transport.is_closing() and not self.pipeline:
            self._lingering = _LINGER_BYTES
            self._arm(_LINGER_SECONDS, self.transport.close)
        elif self._close_then:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._read()
        super().resume_writing()

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def send_400_response(self, msg: str) -> None:
        # What callbacks raise arrives here as an error of the parser.
        large = self._head > HEADER_BYTES or len(self.headers or ()) > MOST_HEADERS
        large = large or len(getattr(self, "url", b"")) > URL_BYTES
        size = sum(len(name) + len(value) + 4 for name, value in self.headers or ())
        self._refuse("headers_too_large" if large or size > HEADER_BYTES else "bad_request")

    def _late(self) -> None:
        self._timer = None
        if self._in_message:
            self._refuse("too_slow")
        else:
            self.transport.close()

    def _refuse(self, code: str) -> None:
        if self.transport.is_closing():
            return
        identity = secrets.token_hex(8)
        body = error_body(code, _MESSAGES[code], identity)
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "x-request-id": identity,
            "cache-control": "no-store",
            "connection": "close",
            **HEADERS,
        }
        if code == "busy":
            headers["retry-after"] = "1"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        log_line("refused", request_id=identity, code=code, status=STATUS[code])
        self.transport.write(STATUS_LINE[STATUS[code]] + f"{lines}\r\n".encode() + body)
        self.transport.close()

    def _arm(self, seconds: float, then: Any) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, then)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def guarded_protocol(seconds: float) -> type[asyncio.Protocol]:
    """The protocol for uvicorn, with so many seconds for headers to come and answers to go."""
    return type("Guarded", (_Guarded,), {"seconds": seconds})
