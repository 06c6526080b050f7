"""Real servers for tests: `arcset serve` as a process of its own, asked through sockets.

    with served(gallery, "--model", run) as server:
        assert server.get("/v1/gallery").json()["subjects"] == 6

`small_gallery` makes what they serve. Everything here is done through the command line.
"""

import contextlib
import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from arcset.cli import main
from support.forked import started as fork
from support.patterns import calibrated_run, pictures
from support.random_runs import random_run

__all__ = [
    "NAMES",
    "Answer",
    "Server",
    "added_key",
    "forked",
    "free_port",
    "multipart",
    "pattern",
    "served",
    "small_gallery",
    "started",
    "typed",
]

NAMES = [f"subject {number}" for number in range(6)]
ARCSET = [sys.executable, "-m", "arcset"]
SECONDS = 120  # that a server may take to start beside other work


@dataclass(frozen=True)
class Answer:
    """A response, read to its end."""

    status: int
    headers: Mapping[str, str]  # by their names in small letters
    body: bytes
    seconds: float

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The stable code of an error."""
        found = self.json()["error"]
        assert found["message"], found
        assert found["request_id"] == self.headers["x-request-id"]
        return str(found["code"])


@dataclass
class Server:
    """A server that runs; `log` is the file with all that it wrote."""

    process: Any  # of `subprocess`, or forked
    port: int
    log: Path
    host: str = "127.0.0.1"
    key: str | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float = 30.0,
    ) -> Answer:
        """Ask once, on a connection of its own."""
        sent = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        sent |= headers or {}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        began = time.perf_counter()
        try:
            connection.request(method, path, body, sent)
            got = connection.getresponse()
            content = got.read()
        finally:
            connection.close()
        found = {name.lower(): value for name, value in got.getheaders()}
        assert len(found) == len(got.getheaders()), "a header is sent twice"
        return Answer(got.status, found, content, time.perf_counter() - began)

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, headers=headers)

    def json(self, method: str, path: str, content: Any = None) -> Answer:
        """Ask with a JSON body."""
        return self.request(
            method, path, json.dumps(content).encode(), {"Content-Type": "application/json"}
        )

    def form(self, path: str, *fields: tuple[str, Any], method: str = "POST") -> Answer:
        """Ask with a multipart form; a field's value is text, or bytes or a path for a file."""
        kind, body = multipart(fields)
        return self.request(method, path, body, {"Content-Type": kind})

    def memory(self) -> int:
        """Bytes that the process holds in memory now."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the server is gone")

    def processor_seconds(self) -> float:
        """That the process, with all its threads, has computed so far."""
        figures = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(figures[11]) + int(figures[12])) / os.sysconf("SC_CLK_TCK")

    def wait(self, seconds: float = SECONDS) -> "Server":
        """Until it is ready; fails with its own words if it ends instead."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            code = self.process.poll()
            assert code is None, f"the server ended with {code}: {self.written()}"
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.request("GET", "/readyz", seconds=5).status == 200:
                    return self
            time.sleep(0.05)
        self.kill()
        raise AssertionError(f"not ready after {seconds} seconds: {self.written()}")

    def stop(self, seconds: float = 30.0) -> int:
        """Ask it to end, as systemd would; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not end in {seconds} seconds: {self.written()}") from None

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self.process.kill()
        self.process.wait()

    def written(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def started(
    gallery: Path, *words: object, key: str | None = None, environment: Any = None
) -> Server:
    """Start `arcset serve GALLERY WORDS…` on a free port, and do not wait for it."""
    port = free_port()
    log = gallery.with_name(f"{gallery.name}.{port}.log")
    command = [*ARCSET, "serve", str(gallery), "--port", str(port), *map(str, words)]
    settings = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=settings
        )
    return Server(process, port, log, key=key)


class _Forked:
    """A forked process, used as those of `subprocess` are."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process
        self.pid = process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, seconds: float | None = None) -> int:
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("arcset serve", seconds or 0)
        return self._process.exitcode


def forked(
    gallery: Path,
    *words: object,
    key: str | None = None,
    command: Callable[[list[str]], object] = main,
) -> Server:
    """As `started`, from a process that has imported everything: there in a second."""
    port = free_port()
    log = gallery.with_name(f"{gallery.name}.{port}.log")
    log.touch()
    line = ["serve", str(gallery), "--port", str(port), *map(str, words)]
    process = fork(command, line, place=gallery.parent, written=log)
    return Server(_Forked(process), port, log, key=key)


@contextlib.contextmanager
def served(gallery: Path, *words: object, key: str | None = None) -> Iterator[Server]:
    """`arcset serve GALLERY WORDS…`, ready; stopped afterwards."""
    server = forked(gallery, *words, key=key)
    try:
        yield server.wait()
    finally:
        server.stop()


def typed(*words: object) -> str:
    """What `arcset WORDS…` prints, typed in this process; fails where it does."""
    out, said = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(said),
        pytest.raises(SystemExit) as ended,
    ):
        main([str(word) for word in words])
    assert not ended.value.code, said.getvalue()
    return out.getvalue()


def small_gallery(
    folder: Path,
    names: Sequence[str] = NAMES,
    each: int = 2,
    *,
    keep_images: bool = True,
    calibrated: bool = True,
) -> Path:
    """FOLDER/people.db with subjects of two samples, and its model FOLDER/run.

    Their images stay in FOLDER/photos/NAME/00.png …; `pattern` makes further ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run = calibrated_run(folder / "run") if calibrated else random_run(folder / "run", dim=32).path
    pictures(folder / "photos", names, each)
    path = folder / "people.db"
    keep = "--keep-images" if keep_images else "--no-keep-images"
    typed("enroll", path, folder / "photos", "--model", run, keep, "--device", "cpu")
    return path


def pattern(folder: Path, name: str, number: int = 10) -> Path:
    """An image file of a subject that no gallery holds yet."""
    return pictures(folder, [name], 1, first=number)[0]


def added_key(gallery: Path, role: str, name: str = "") -> str:
    """A new API key of the gallery."""
    return typed("keys", "add", gallery, "--role", role, "--name", name).strip()


def multipart(fields: Sequence[tuple[str, Any]]) -> tuple[str, bytes]:
    """Content type and body of a form; bytes and paths are sent as files."""
    mark = uuid.uuid4().hex
    parts = []
    for name, value in fields:
        file = ""
        if isinstance(value, Path):
            file, value = f'; filename="{urllib.parse.quote(value.name)}"', value.read_bytes()
        elif isinstance(value, bytes):
            file = '; filename="image"'
        else:
            value = str(value).encode()
        head = f'--{mark}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
        parts.append(head.encode() + value + b"\r\n")
    return f"multipart/form-data; boundary={mark}", b"".join(parts) + f"--{mark}--\r\n".encode()
