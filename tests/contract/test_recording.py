"""Nothing is recorded by accident, and what differs is named."""

import pytest

from contract import recording
from contract.recording import interval, recorded


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "FOLDER", tmp_path)
    monkeypatch.delenv("ARCSET_RECORD", raising=False)
    monkeypatch.delenv("CI", raising=False)
    return tmp_path


@pytest.fixture
def record(monkeypatch):
    """Call as `recorded`, as if ARCSET_RECORD named it."""

    def call(name, value):
        with monkeypatch.context() as named:
            named.setenv("ARCSET_RECORD", name)
            with pytest.warns(UserWarning, match="nothing was compared"):
                recorded(name, value)

    return call


def test_a_missing_record_is_a_failure(folder):
    with pytest.raises(AssertionError, match=r"something\.json"):
        recorded("something", 1)
    assert not list(folder.iterdir())


@pytest.mark.parametrize(("named", "ci"), [("another", ""), ("", ""), ("some*", "true")])
def test_only_what_is_named_is_recorded_and_nothing_in_ci(folder, monkeypatch, named, ci):
    monkeypatch.setenv("ARCSET_RECORD", named)
    monkeypatch.setenv("CI", ci)
    with pytest.raises(AssertionError):
        recorded("something", 1)
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ({"a": {"b": [1.0, 0.5]}}, {"a": {"b": [1.0, 0.50001]}}, r"\$\.a\.b\[1\]"),
        ({"a": 1, "b": 2}, {"a": 1}, r"\$\.b"),
        ({"a": 1}, {"a": 1, "b": 2}, r"\$\.b"),
        ([1, 2], [1, 2, 3], "2 items, now 3"),
        ({"a": None}, {"a": 0.0}, r"\$\.a"),
        ({"a": 0.5}, {"a": float("nan")}, r"\$\.a"),
        ({"a": True}, {"a": 1}, r"\$\.a"),
        ({"a": interval((0.4, 0.6))}, {"a": interval((0.3, 0.7))}, r"\$\.a\.high"),
        ({"a": interval((0.4, 0.6))}, {"a": interval((0.4, 0.612))}, r"\$\.a\.high"),
        ({"a": interval((0.5, 0.5))}, {"a": interval((0.5, 0.50001))}, r"\$\.a\.high"),
    ],
)
def test_a_difference_is_named_by_its_place(record, old, new, where):
    record("something", old)
    with pytest.raises(AssertionError, match=where):
        recorded("something", new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a": 0.5}, {"a": 0.5 + 9e-7}),
        (1e6, 1e6 + 0.9),
        ({"b": 1, "a": (1, 2)}, {"a": [1, 2], "b": 1}),
        (interval((0.4, 0.6)), interval((0.391, 0.609))),
        (float("nan"), None),
    ],
)
def test_what_is_close_enough_passes(record, old, new):
    record("something", old)
    recorded("something", new)
