import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from arcset import DataError
from arcset.recognition.faces import SFACE, YUNET, Faces, ModelFile

CONTENT = b"weights" * 1000


def model(*urls: str) -> ModelFile:
    digest = hashlib.sha256(CONTENT).hexdigest()
    return ModelFile("net.onnx", "a network", "MIT", digest, urls)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ARCSET_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "arcset" / "faces"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serves good/net.onnx, and bad/net.onnx of other content."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name, content in (("good", CONTENT), ("bad", b"others")):
        (tmp_path / "www" / name).mkdir(parents=True)
        (tmp_path / "www" / name / "net.onnx").write_bytes(content)

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = partial(Handler, directory=str(tmp_path / "www"))
    web = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=web.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{web.server_port}"
    web.shutdown()
    web.server_close()
    thread.join()


def test_downloaded_once_from_the_first_that_sends_the_right_bytes(
    cache: Path, server: str
) -> None:
    wanted = model(f"{server}/none/net.onnx", f"{server}/bad/net.onnx", f"{server}/good/net.onnx")
    assert wanted.find() == cache / "net.onnx"
    assert (cache / "net.onnx").read_bytes() == CONTENT
    assert model("http://127.0.0.1:9/nobody").find() == cache / "net.onnx"
    (cache / "net.onnx").unlink()
    with pytest.raises(DataError, match="sha256"):
        model(f"{server}/bad/net.onnx").find()
    assert list(cache.iterdir()) == []


def test_the_users_own_folder_goes_before_the_cache(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCSET_DATA", str(tmp_path / "data"))
    for folder in (cache, tmp_path / "data" / "faces"):
        folder.mkdir(parents=True)
        (folder / "net.onnx").write_bytes(CONTENT)
    assert model().find() == tmp_path / "data" / "faces" / "net.onnx"


def test_another_file_in_its_place_is_refused(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / YUNET.name).write_bytes(b"others")
    with pytest.raises(DataError, match=r"YuNet.*8f2383e4"):
        YUNET.find()
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    with pytest.raises(DataError, match=YUNET.name):
        Faces.load()


def test_the_published_files_are_named_in_full() -> None:
    for known in (YUNET, SFACE):
        assert len(known.sha256) == 64
        assert len(known.urls) == 3
        assert all(url.startswith("https://") and url.endswith(known.name) for url in known.urls)
