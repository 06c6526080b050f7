"""Any text on one line is a name, and comes back as it was."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcset import Gallery, OptionError
from support.galleries import NAMES, unit

TROUBLE = ["o'Hara", 'a "b"', "'); DROP TABLE samples; --", "%", "_", " ", "x" * 256]

#: What is no name, and what the error quotes of it.
NONE = {
    "": "256",
    "x" * 10_000: "10,000.*256",
    "two\nlines": r"two\\nlines",
    "tab\t": r"tab\\t",
    "nul\0": r"nul\\x00",
    "line\u2028separator": r"line\\u2028separator",
    "half \ud800": r"half \\ud800",
    None: "NoneType",
    7: "int",
    b"anna": "bytes",
}


def test_names_come_back(place):
    @given(names=st.lists(NAMES, min_size=1, max_size=8, unique=True))
    @settings(max_examples=5 if place.kind == "file" else 3)
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


def test_names_that_look_like_trouble(place):
    with Gallery.open(place("g"), dim=16) as gallery:
        rows = unit(len(TROUBLE), 16)
        gallery.enroll_many(TROUBLE, embeddings=rows)
        for number, (name, row) in enumerate(zip(TROUBLE, rows, strict=True), start=1):
            assert gallery.identify(embedding=row, threshold=0.9).subject == name
            gallery.remove(name)
            assert [one.name for one in gallery.subjects()] == TROUBLE[number:]


def test_what_is_no_name(place):
    with Gallery.open(place("g"), dim=3) as gallery:
        gallery.enroll("anna", embeddings=[1, 0, 0])
        for name, quoted in NONE.items():
            for change in (
                lambda name=name: gallery.enroll(name, embeddings=[1, 0, 0]),
                lambda name=name: gallery.enroll_many(["ok", name], embeddings=unit(2, 3)),
                lambda name=name: gallery.rename("anna", name),
            ):
                with pytest.raises(OptionError, match=quoted) as caught:
                    change()
                assert "\n" not in str(caught.value)
        assert [one.name for one in gallery.subjects()] == ["anna"]
