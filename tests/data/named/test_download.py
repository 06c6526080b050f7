import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arcset.errors import DataError
from support.datasets import download

# Longer than any buffer.
CONTENT = np.random.default_rng(0).bytes(700_000)


def whole(path: Path) -> None:
    if (length := len(path.read_bytes())) != len(CONTENT) or path.read_bytes() != CONTENT:
        raise DataError(f"{path} is not what I want, in {length} bytes")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def broken_off(content: bytes, *, reset: bool = False) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer that promises `content` and closes, or resets, the connection halfway."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content[: len(content) // 2])
        handler.wfile.flush()
        handler.close_connection = True
        if reset:
            time.sleep(0.1)  # a reset overtakes what the client has not read yet
            now = struct.pack("ii", 1, 0)
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
            # The answering objects share the socket; the reset goes out once all have let go.
            handler.rfile.close()
            handler.wfile.close()
            handler.connection.close()

    return answer


def test_a_redirect_is_followed_but_not_out_of_the_web(mirror: Any, folder: Path) -> None:
    def to(address: str) -> Callable[[BaseHTTPRequestHandler], None]:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(302)
            handler.send_header("Location", address)
            handler.end_headers()

        return answer

    good = mirror.answer("/moved", to(mirror.serve("/file", CONTENT)))
    download([good], folder / "file", check=whole)
    assert names(folder) == ["file"]
    for address in ("ftp://127.0.0.1/file", f"file://{folder}/file"):
        away = mirror.answer("/away", to(address))
        with pytest.raises(DataError, match="/away"):
            download([away], folder / "other", check=whole)
    assert names(folder) == ["file"]


def test_the_second_mirror_helps_out(mirror: Any, folder: Path) -> None:
    bad = [
        mirror.url + "/missing",
        mirror.serve("/wrong", b"something else"),
        mirror.answer("/short", broken_off(CONTENT)),
    ]
    good = mirror.serve("/good", CONTENT)
    download([*bad, good, mirror.url + "/never"], folder / "file", check=whole)
    assert (folder / "file").read_bytes() == CONTENT
    assert names(folder) == ["file"]
    assert mirror.asked == ["/missing", "/wrong", "/short", "/good"]


def test_a_server_need_not_say_how_much_it_sends(mirror: Any, folder: Path) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(CONTENT)
        handler.close_connection = True

    download([mirror.answer("/file", answer)], folder / "file", check=whole)
    assert names(folder) == ["file"]


def silent(mirror: Any) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"some")
        mirror.closing.wait(20)

    return answer


FAILURES: dict[str, tuple[Callable[[Any], str], str]] = {
    "other bytes": (lambda mirror: mirror.serve("/file", b"x" + CONTENT[1:]), "700000 bytes"),
    "closed early": (lambda mirror: mirror.answer("/file", broken_off(CONTENT)), "350000"),
    "reset": (lambda mirror: mirror.answer("/file", broken_off(CONTENT, reset=True)), "reset"),
    "no answer in HTTP": (
        lambda mirror: mirror.answer("/file", lambda handler: handler.wfile.write(b"hello\r\n")),
        "hello",
    ),
    "silent": (lambda mirror: mirror.answer("/file", silent(mirror)), "timed out"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_leaves_the_folder_as_it_was(mirror: Any, folder: Path, failure: str) -> None:
    (folder / "file").write_text("older")
    make, message = FAILURES[failure]
    url = make(mirror)
    with pytest.raises(DataError, match=message) as caught:
        download([url], folder / "file", check=whole, timeout=0.5)
    assert names(folder) == ["file"]
    assert (folder / "file").read_text() == "older"
    assert url in str(caught.value)
    assert str(folder) in str(caught.value)  # where to put the file by hand


def test_ctrl_c_leaves_nothing_behind(mirror: Any, folder: Path) -> None:
    halfway = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(CONTENT)))
        handler.end_headers()
        handler.wfile.write(CONTENT[: len(CONTENT) // 2])
        handler.wfile.flush()
        halfway.set()
        mirror.closing.wait(60)

    url = mirror.answer("/file", answer)
    script = (
        "import signal, sys; from pathlib import Path\n"
        "from arcset.data.named.fetch import download\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in a shell's &
        "download([sys.argv[1]], Path(sys.argv[2]), check=Path.read_bytes)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, url, str(folder / "file")],
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        assert halfway.wait(60)
        while not any(path.stat().st_size for path in folder.iterdir()):
            assert child.poll() is None
            time.sleep(0.01)
        assert names(folder)[0].endswith(".part")
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert child.returncode != 0
    assert "KeyboardInterrupt" in errors
    assert names(folder) == []
