"""Requests that mean harm, as bytes, and connections on which anything can be said."""

import socket
import time

from support.servers import Answer, multipart

__all__ = ["FORMS", "HEADS", "Raw", "head"]


class Raw:
    """A connection on which anything can be said."""

    def __init__(self, server):
        self.server = server
        self.socket = socket.create_connection((server.host, server.port), timeout=20)
        self.began = time.perf_counter()

    def say(self, *parts):
        """Send until the server does not listen any more."""
        for part in parts:
            try:
                self.socket.sendall(part)
            except OSError:
                return self
        return self

    def answer(self):
        """The first answer, as `Server.request` gives it."""
        got = b""
        try:
            while b"\r\n\r\n" not in got:
                some = self.socket.recv(1 << 16)
                assert some, f"no answer, only {got!r}"
                got += some
            head, _, body = got.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
            }
            length = int(headers["content-length"]) if "content-length" in headers else None
            while length is None or len(body) < length:
                some = self.socket.recv(1 << 16)
                if not some:
                    break
                body += some
        finally:
            self.socket.close()
        return Answer(int(first.split()[1]), headers, body, time.perf_counter() - self.began)


def head(method="POST", path="/v1/identify", *lines, kind="application/json"):
    fixed = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Type: {kind}"]
    return "\r\n".join([*fixed, *lines, "", ""]).encode("latin-1")


def form(*fields):
    kind, body = multipart(fields)
    return body, kind


#: Bodies and their content type, by name.
FORMS = {
    "no boundary": (b"--x\r\n\r\n--x--", "multipart/form-data"),
    "an endless boundary": (b"--x--", "multipart/form-data; boundary=" + "x" * 4_000),
    "another boundary": (form(("image", b"1"))[0], "multipart/form-data; boundary=other"),
    "nothing in it": (b"", "multipart/form-data; boundary=x"),
    "cut short": (form(("image", b"1"))[0][:-30], form(("image", b"1"))[1]),
    "a thousand images": form(*[("image", b"1")] * 1_000),
    "ten thousand fields": form(*[(f"field {number}", "1") for number in range(10_000)]),
    "one field twice": form(("fpir", "0.1"), ("fpir", "0.2"), ("image", b"1")),
    "a field of a megabyte": form(("fpir", "1" * (1 << 20)), ("image", b"1")),
    "an unknown field": form(("url", "http://127.0.0.1/"), ("image", b"1")),
    "text for an image": form(("image", "/etc/passwd")),
    "a charset that decodes nothing": (
        b'--x\r\nContent-Disposition: form-data; name="fpir"\r\n\r\n0.1\r\n--x--\r\n',
        "multipart/form-data; boundary=x; charset=undefined",
    ),
    "no UTF-8": (
        b'--x\r\nContent-Disposition: form-data; name="fpir"\r\n\r\n\xff\r\n--x--\r\n',
        "multipart/form-data; boundary=x",
    ),
    "endless headers of a part": (
        b"--x\r\n" + b"A: b\r\n" * 200_000 + b"\r\n\r\n--x--",
        "multipart/form-data; boundary=x",
    ),
    "a header of megabytes": (
        b"--x\r\nA: " + b"b" * (4 << 20) + b"\r\n\r\n1\r\n--x--",
        "multipart/form-data; boundary=x",
    ),
    "nothing but ends of lines": (
        b'--x\r\nContent-Disposition: form-data; name="image"\r\n\r\n'
        + b"\r\n" * (1 << 21)
        + b"\r\n--x--\r\n",
        "multipart/form-data; boundary=x",
    ),
    "another kind": (b"image=1", "application/x-www-form-urlencoded"),
    "xml": (b"<image/>", "text/xml"),
    "no kind": (b"image", ""),
}

#: Requests whose beginning is wrong already.
HEADS = {
    "ten thousand headers": head("GET", "/v1/gallery", *[f"A{n}: b" for n in range(10_000)]),
    "a header of a megabyte": head("GET", "/v1/gallery", "A: " + "b" * (1 << 20)),
    "an address of a megabyte": head("GET", "/v1/gallery?" + "a" * (1 << 20)),
    "two lengths": head("POST", "/v1/identify", "Content-Length: 2", "Content-Length: 3") + b"{}",
    "a length and chunks": head(
        "POST", "/v1/identify", "Content-Length: 2", "Transfer-Encoding: chunked"
    )
    + b"0\r\n\r\n",
    "a length below nothing": head("POST", "/v1/identify", "Content-Length: -1"),
    "chunks of no size": head("POST", "/v1/identify", "Transfer-Encoding: chunked") + b"xyz\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "a null byte": b"GET /v1/gallery HTTP/1.1\r\nHost: 127.0.0.1\r\nA: \x00b\r\n\r\n",
    "a folded header": b"GET /v1/gallery HTTP/1.1\r\nHost: 127.0.0.1\r\n\tA: b\r\nB\r\n\r\n",
    "another version": b"GET /v1/gallery HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
}
