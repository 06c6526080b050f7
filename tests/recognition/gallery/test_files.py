"""What a gallery in a file is: one file, of any name, with images in it if so wished."""

import numpy as np
import pytest
from PIL import Image

from arcset import Gallery, InputError
from support.galleries import Projection, bytes_of, unit


def test_a_file_is_all_that_there_is(tmp_path):
    with Gallery.open(tmp_path / "people.db", dim=4) as gallery:
        gallery.enroll("anna", embeddings=np.eye(4))
    assert [file.name for file in tmp_path.iterdir()] == ["people.db"]


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


def test_very_many_samples_go_in_batches(tmp_path):
    told, names = [], [f"{number % 700}" for number in range(5000)]
    with Gallery.open(tmp_path / "g.db", dim=4) as gallery:
        samples = gallery.enroll_many(
            names, embeddings=unit(5000, 4), progress=lambda done, total: told.append((done, total))
        )
        assert len(told) > 1
        assert told == sorted(told)
        assert told[-1] == (5000, 5000)
        assert len(set(samples)) == gallery.sample_count == 5000
        assert gallery.labelled()[1] == tuple(names)
