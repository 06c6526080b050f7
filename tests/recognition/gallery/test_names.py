"""Names of subjects and files: any text on one line, which comes back as it was; any image."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from arcset import Gallery, InputError, OptionError
from support.galleries import NAMES, Projection, bytes_of, unit

TROUBLE = ["o'Hara", 'a "b"', "'); DROP TABLE samples; --", "%", "_", " ", "x" * 256]

#: What is no name, and what the error quotes of it.
REFUSED = {
    "": "256",
    "x" * 10_000: "xxx.*256",
    "two\nlines": r"two\\nlines",
    "line\u2028separator": r"line\\u2028separator",
    "half \ud800": r"half \\ud800",
    b"anna": "anna",
}


def test_names_come_back(location):
    @given(names=st.lists(NAMES, min_size=1, max_size=8, unique=True))
    @example(names=TROUBLE)
    @settings(max_examples=5 if location.kind == "file" else 3)
    def check_one(names):
        path, rows = location.anew(), unit(len(names), 16)
        with Gallery.open(path, dim=16) as gallery:
            gallery.enroll_many(names, embeddings=rows)
        with Gallery.open(path) as gallery:
            assert [one.name for one in gallery.subjects()] == names
            for name, row in zip(names, rows, strict=True):
                assert name in gallery
                assert gallery.identify(embedding=row, threshold=0.999).subject == name
                gallery.remove(name)
                assert name not in gallery
            assert len(gallery) == 0

    check_one()


def test_what_is_no_name(location):
    with Gallery.open(location("g"), dim=3) as gallery:
        gallery.enroll("anna", embeddings=[1, 0, 0])
        for name, quoted in REFUSED.items():
            for change in (
                lambda name=name: gallery.enroll(name, embeddings=[1, 0, 0]),
                lambda name=name: gallery.enroll_many(["ok", name], embeddings=unit(2, 3)),
                lambda name=name: gallery.rename("anna", name),
            ):
                with pytest.raises(OptionError, match=quoted) as caught:
                    change()
                assert "\n" not in str(caught.value)
        assert [one.name for one in gallery.subjects()] == ["anna"]


@pytest.mark.parametrize("name", ["a b?c#d%20&e.db", "gal'lery", "漢字.db", "no-ending"])
def test_files_of_any_name(tmp_path, name):
    with Gallery.open(tmp_path / name, dim=3) as gallery:
        gallery.enroll("anna", embeddings=[1, 0, 0])
    assert [file.name for file in tmp_path.iterdir()] == [name]
    (tmp_path / "link").symlink_to(name)
    with Gallery.open(str(tmp_path / "link")) as gallery:
        gallery.remove("anna")
        assert b"anna" not in bytes_of(tmp_path / name)
    with Gallery.open(tmp_path / name) as gallery:
        assert len(gallery) == 0


def test_images_that_no_png_holds(tmp_path):
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8), np.uint8))
    with Gallery.open(tmp_path / "g.db", Projection(), keep_images=True) as gallery:
        for mode in ("CMYK", "HSV", "1", "P", "RGBA", "F"):
            gallery.enroll(mode, picture.convert(mode))
            assert gallery.image(gallery.samples(mode)[0].id).startswith(b"\x89PNG")
        with pytest.raises(InputError, match="uint8"):
            gallery.enroll("floats", [np.zeros((8, 8))], embeddings=unit(1, 16))
        with pytest.raises(InputError, match="7"):
            gallery.enroll("seven", [7], embeddings=unit(1, 16))
        assert len(gallery) == 6
