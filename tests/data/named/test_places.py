from pathlib import Path

import pytest

from arcset.data.named.fetch import data_folders


def test_arcset_data_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setenv("ARCSET_DATA", "/data")
    assert data_folders("mnist") == (Path("/data/mnist"), Path("/cache/arcset/mnist"))
    monkeypatch.setenv("ARCSET_DATA", "")
    assert data_folders("mnist") == (Path("/cache/arcset/mnist"),)
