"""One connection that is kept open, and what can go wrong on it."""

import contextlib
import http.client
import json
import select
import threading
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

from arcset.client.forms import Field, encoded
from arcset.errors import ArcsetError, OptionError

__all__ = ["Connection", "ServiceError"]

Query = dict[str, Any] | None


class ServiceError(ArcsetError):
    """The service refused, failed or cannot be reached.

    Attributes:
        code: what programs decide by, as `no_such_subject`. The client's own are `unreachable`,
            `timeout`, `disconnected` and `bad_answer`; docs/guides/serve.md lists the service's.
        status: of HTTP; None where there was no answer.
        request_id: by which the service's log knows it; None where it did not say.
        retry_after: seconds to wait before trying again, where the service named some.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after


class Connection:
    """To one service, kept open; threads take turns.

    url, key, timeout: see `Client`. Raises `OptionError` for what is no http address or no key.
    """

    def __init__(self, url: str, key: str | None, timeout: float) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or parts.scheme not in ("http", "https") or parts.query or parts.username:
            raise OptionError(f"the address {url!r} is none, expected http://host:port")
        if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key):
            raise OptionError("the key holds characters that no key has: was it cut or wrapped?")
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self.url = url
        self._link = kind(host, port, timeout=timeout)
        self._base = parts.path.rstrip("/")
        self._headers = {"Accept": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of the socket; the next request opens another."""
        with self._lock:
            self._link.close()

    def ask(self, method: str, path: str, query: Query = None, **sent: Any) -> Any:
        """What the service answers, as JSON; options as of `fetch`."""
        body = self.fetch(method, path, query, **sent)
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise ServiceError("bad_answer", f"{self.url} does not answer as arcset does") from None

    def fetch(
        self,
        method: str,
        path: str,
        query: Query = None,
        *,
        form: Sequence[Field] | None = None,
        content: Any = None,
    ) -> bytes:
        """The body of the answer.

        query: what stands behind the path, without what is None. form, content: a body, as a form
        or as JSON. Raises `ServiceError` for everything but success.
        """
        asked = {key: value for key, value in (query or {}).items() if value is not None}
        target = self._base + path + ("?" + urlencode(asked, errors="replace") if asked else "")
        headers, body = dict(self._headers), None
        if form is not None:
            headers["Content-Type"], body = encoded(form)
        elif content is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(content).encode()
        with self._lock:
            got, answer = self._sent(method, target, body, headers)
        if not 200 <= got.status < 300:
            raise _refusal(got, answer, self.url)
        return answer

    def _sent(
        self, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Once; a question that changes nothing a second time, if the old socket was gone."""
        if self._link.sock is not None and _ended(self._link.sock):
            self._link.close()
        if method == "GET" and self._link.sock is not None:
            try:
                return self._sent_once(method, target, body, headers)
            except ServiceError as error:
                if error.code != "disconnected":
                    raise
        return self._sent_once(method, target, body, headers)

    def _sent_once(
        self, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        link, whole = self._link, False
        try:
            if link.sock is None:
                self._connect()
            # Refused before all was sent: the reason may be there already.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                link.request(method, target, body, headers)
            got = link.getresponse()
            answer, whole = got.read(), True
            return got, answer
        except TimeoutError:
            raise ServiceError(
                "timeout", f"{self.url} did not answer in {link.timeout:g} seconds"
            ) from None
        except (OSError, http.client.HTTPException):
            raise ServiceError(
                "disconnected", f"{self.url} closed the connection before it had answered"
            ) from None
        finally:
            if not whole:  # what may still come belongs to nobody
                link.close()

    def _connect(self) -> None:
        try:
            self._link.connect()
        except TimeoutError:
            raise
        except OSError as error:
            why = error.strerror or str(error)
            raise ServiceError("unreachable", f"{self.url} cannot be reached: {why}") from None


def _ended(sock: Any) -> bool:
    """Whether an idle connection was closed, or holds what nobody asked for."""
    with contextlib.suppress(OSError, ValueError):
        waiting = select.poll()
        waiting.register(sock, select.POLLIN)
        return bool(waiting.poll(0))
    return True


def _refusal(got: http.client.HTTPResponse, answer: bytes, url: str) -> ServiceError:
    request_id, wait = got.getheader("X-Request-ID"), got.getheader("Retry-After", "")
    try:
        told = json.loads(answer)["error"]
        code, message = str(told["code"]), str(told["message"])
    except (ValueError, TypeError, KeyError, RecursionError):  # a proxy, or another service
        code, message = "bad_answer", f"{url} answered {got.status} {got.reason}"
    return ServiceError(
        code,
        message,
        status=got.status,
        request_id=request_id,
        retry_after=float(wait) if wait.isascii() and wait.isdigit() else None,
    )
