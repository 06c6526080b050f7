from pathlib import Path

import pytest

from arcset.data.named.fetch import cache_folder, data_folders


def test_the_cache_is_where_the_user_keeps_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/arcset")
    for unusable in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert cache_folder() == Path.home() / ".cache" / "arcset"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "arcset"


def test_arcset_data_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setenv("ARCSET_DATA", "/data")
    assert data_folders("mnist") == (Path("/data/mnist"), Path("/cache/arcset/mnist"))
    monkeypatch.setenv("ARCSET_DATA", "")
    assert data_folders("mnist") == (Path("/cache/arcset/mnist"),)
