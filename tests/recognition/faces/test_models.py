import hashlib
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
