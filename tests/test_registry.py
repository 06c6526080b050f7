import importlib.metadata

import pytest

from arcset import OptionError
from arcset.registry import Registry


def test_names_are_sorted_and_looked_up():
    kinds = Registry("kind")
    kinds.add("b", 2)
    kinds.register("a")(1)
    assert kinds.names() == ["a", "b"]
    assert kinds["a"] == 1
    assert "b" in kinds
    assert "c" not in kinds
    kinds.remove("b")
    assert kinds.names() == ["a"]


def test_unknown_and_taken_names():
    kinds = Registry("kind")
    kinds.add("circle", 1)
    with pytest.raises(OptionError, match=r"'circel'.*'circle'"):
        kinds["circel"]
    with pytest.raises(OptionError, match=r"'xyz'.*circle"):
        kinds["xyz"]
    with pytest.raises(OptionError, match="'circle'"):
        kinds.add("circle", 2)


def test_entry_points_of_other_packages_are_entries(monkeypatch):
    def entry_points(*, group):
        assert group == "some.group"
        return [
            importlib.metadata.EntryPoint("squared", "math:sqrt", group),
            importlib.metadata.EntryPoint("broken", "no_such_module:thing", group),
        ]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    kinds = Registry("kind", "arcset.centers", group="some.group")
    assert {"squared", "broken"} <= set(kinds.names())
    assert kinds["squared"](4) == 2
    with pytest.raises(OptionError, match=r"'broken'.*no_such_module"):
        kinds["broken"]
