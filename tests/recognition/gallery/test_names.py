"""Any text on one line is a name, and comes back as it was."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcset.errors import OptionError
from arcset.recognition.gallery import Gallery
from arcset.recognition.gallery.names import check_name
from support.galleries import NAMES, unit


def test_names_come_back(place):
    @given(names=st.lists(NAMES, min_size=1, max_size=8, unique=True))
    @settings(max_examples=10 if place.kind == "file" else 3)
    def check_one(names):
        path = place.anew()
        with Gallery.open(path, dim=3) as gallery:
            gallery.enroll_many(names, embeddings=unit(len(names), 3))
        with Gallery.open(path) as gallery:
            assert [one.name for one in gallery.subjects()] == names
            for name in names:
                assert name in gallery
                gallery.remove(name)
            assert len(gallery) == 0

    check_one()


@pytest.mark.parametrize(
    "name", ["o'Hara", 'a "b"', "'); DROP TABLE samples; --", "%", "_", " ", "x" * 256]
)
def test_names_that_look_like_trouble(place, name):
    with Gallery.open(place("g"), dim=3) as gallery:
        gallery.enroll_many([name, "other"], embeddings=unit(2, 3))
        assert gallery.identify(embedding=gallery.labelled()[0][0], threshold=0.9).subject == name
        gallery.remove(name)
        assert [one.name for one in gallery.subjects()] == ["other"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "is empty, expected 1 to 256 characters"),
        ("x" * 10_000, "has 10,000 characters, expected 1 to 256"),
        ("two\nlines", "control characters"),
        ("tab\t", "control characters"),
        ("nul\0", "control characters"),
        ("line\u2028separator", "control characters"),
        ("half \ud800", "control characters"),
        (None, "is NoneType, expected text"),
        (7, "is int, expected text"),
        (b"anna", "is bytes, expected text"),
    ],
)
def test_what_is_no_name(place, name, text):
    with pytest.raises(OptionError, match=text) as caught:
        check_name(name)
    assert "\n" not in str(caught.value)
    with Gallery.open(place("g"), dim=3) as gallery:
        gallery.enroll("anna", embeddings=[1, 0, 0])
        for change in (
            lambda: gallery.enroll(name, embeddings=[1, 0, 0]),
            lambda: gallery.enroll_many(["ok", name], embeddings=unit(2, 3)),
            lambda: gallery.rename("anna", name),
        ):
            with pytest.raises(OptionError, match=text):
                change()
        assert [one.name for one in gallery.subjects()] == ["anna"]
